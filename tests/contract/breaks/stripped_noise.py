"""Noise by Mersenne Twister: who sees 624 of its numbers solves for its state and takes all other noise off.

The weak variant turns each output of 32 bits into one normal number, so the noise of a row that is zero tells all of an
output. Tempering is linear over the field of two elements: 32 equations per word. Of torch's numbers fewer bits
show; that needed 20,000 equations at once and a minute, and no other idea.
"""

import numpy as np
import torch
from scipy.special import ndtr, ndtri

from cutlayer.defence import Local, Place
from cutlayer.defences import DpSgd, GaussianNoise
from cutlayer.draws import Draws

WORDS, ROWS, WIDTH = 624, 200, 8
KNOWN = WORDS // WIDTH  # rows whose clean gradient the attacker knows: it is zero


class Twister:
    """The weak variant: normal numbers by inversion of a twister's outputs."""

    def __init__(self, seed):
        self.state = np.random.RandomState(seed)

    def normal(self, shape):
        words = self.state.randint(0, 2**32, shape, dtype=np.uint32)
        return torch.from_numpy(ndtri((words + 0.5) / 2**32))


def tempered(word):
    word ^= word >> 11
    word ^= word << 7 & 0x9D2C5680
    word ^= word << 15 & 0xEFC60000
    return word ^ word >> 18


def untempered(outputs):
    """Solve tempering for the words of the state, by elimination over the field of two elements."""
    system = np.array([[tempered(1 << j) >> i & 1 for j in range(32)] for i in range(32)], np.uint8)
    right = (outputs[None, :] >> np.arange(32, dtype=np.uint64)[:, None] & np.uint64(1)).astype(np.uint8)
    for place in range(32):
        pivot = place + int(np.argmax(system[place:, place]))
        for matrix in (system, right):
            matrix[[place, pivot]] = matrix[[pivot, place]]
        for row in np.nonzero(system[:, place])[0]:
            if row != place:
                system[row] ^= system[place]
                right[row] ^= right[place]
    return (right.astype(np.uint64) << np.arange(32, dtype=np.uint64)[:, None]).sum(axis=0).astype(np.uint32)


def stripped(sent, std):
    """Take the noise off all rows, given that the first ones were zero."""
    numbers = (sent / std).numpy().astype(np.float64)
    outputs = np.clip(np.floor(ndtr(numbers[:KNOWN]) * 2**32), 0, 2**32 - 1).astype(np.uint64).ravel()
    state = np.random.RandomState(0)
    state.set_state(("MT19937", untempered(outputs), WORDS))
    rest = state.randint(0, 2**32, (ROWS - KNOWN, WIDTH), dtype=np.uint32)
    return sent[KNOWN:] - std * torch.from_numpy(ndtri((rest + 0.5) / 2**32))


def clean():
    values = torch.from_numpy(np.random.default_rng(1).normal(size=(ROWS, WIDTH))) * 0.1
    values[:KNOWN] = 0
    return values


def test_a_twisters_noise_is_taken_off():
    """It starts anywhere: a whole turn of the twister was seen, from one of its beginnings on."""
    twister = Twister(7)
    twister.normal((5 * WORDS,))
    sent = clean() + 3.3 * twister.normal((ROWS, WIDTH))
    assert (stripped(sent, 3.3) - clean()[KNOWN:]).abs().max() < 1e-6


def test_noise_from_the_cipher_is_not():
    noise = {
        "normal": clean() + 3.3 * Draws(7).normal((ROWS, WIDTH)),
        "discrete": clean() + 3.3 * Draws(7).discrete_normal((ROWS, WIDTH)) / 131_076,
        "gaussian-noise": GaussianNoise(std=3.3, on="gradient").protect(clean(), here()),
        "dp-sgd": ROWS * DpSgd(noise=3.3).protect(clean() / ROWS, here()),
    }
    for name, sent in noise.items():
        left = stripped(sent, 3.3) - clean()[KNOWN:]
        assert left.std().item() > 3.3, name  # with another's noise on top


def here():
    return Local(Place.GRADIENT, Draws(7), True, torch.arange(ROWS))
