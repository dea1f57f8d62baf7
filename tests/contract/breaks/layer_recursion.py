"""Encrypted layer: a label party that knows W at the start follows every later embedding, where width >= m.

alpha_t = z_t W_t^+, and W_(t+1) = W_t - lr alpha_t^T delta_t: all of it is what the label party opened, sent or knows.
"""

import pytest
import torch

from cutlayer.crypto import Paillier
from cutlayer.cuts.encrypted_layer import EncryptedLayer
from cutlayer.cuts.parts import masking
from cutlayer.cuts.parts.layer_start import signs
from cutlayer.message import Kind, Phase
from cutlayer.plan import assemble
from cutlayer.rng import generator
from cutlayer.transcript import Keep, Policy, Transcript
from tests.helpers.layered import make_task, plan_of, weights_of

INPUTS, WIDTH, LR, EPOCHS, ME = 3, 16, 0.2, 2, "p0"


@pytest.fixture(autouse=True)
def small_keys(monkeypatch):
    monkeypatch.setattr(masking, "Paillier", lambda ring: Paillier(ring, 512, for_tests=True))


class Watched(EncryptedLayer):
    """The label party writes down the gradients that it computes."""

    seen: list[torch.Tensor]

    def settle(self, roster, batch, gradients):
        self.seen.append(gradients[ME].detach().double())
        yield from super().settle(roster, batch, gradients)


def train(weak):
    """A short training: the products that the label party opened, its gradients, its share at the start; the truth."""
    Watched.seen = []
    task, seen = make_task(1, own=False), Transcript(Keep(Policy.ALL))
    cut = Watched(width=WIDTH, lr=LR, scheme="paillier", bits=48)
    session = assemble(task, plan_of(cut), seen.record)
    session.predict(task.test)
    label, feature = session.label_party.cut, session.parties[ME].cut
    places, ring = label._ends[ME].terms.places.weights, label._ring
    start = weights_of(session, ME).double()
    if weak:  # as it was: the label party draws W, and N is zero
        label._memory.put(f"weights {ME}", ring.add(label._memory.find(f"weights {ME}"), feature._noise()))
        feature._memory.put("noise", 0 * feature._noise())
    share = torch.from_numpy(ring.decode(label._memory.find(f"weights {ME}"), places))
    embeddings = []
    bottom = session.parties[ME].bottom
    handle = bottom.register_forward_hook(lambda *call: embeddings.append(call[2].detach().double()))
    for epoch in range(EPOCHS):
        session.train_epoch(epoch, task.train)
    handle.remove()
    opened = [m.payload.double() for m in seen.channels["server", "server", Kind.SUM, Phase.TRAIN].messages()]
    key = label._ends[ME].seed  # the label party's own
    return opened, Watched.seen, share, key, embeddings, start


def followed(opened, gradients, weights):
    """The embeddings of all steps, from what the label party takes for W at the start."""
    embeddings = []
    for product, gradient in zip(opened, gradients, strict=True):
        embeddings.append(product @ torch.linalg.pinv(weights))
        weights = weights - LR * embeddings[-1].T @ gradient
    return torch.cat(embeddings)


def error_of(guess, truth):
    truth = torch.cat(truth)
    return float((guess - truth).norm() / truth.norm())


def test_with_weights_that_the_label_party_drew_it_follows_every_embedding():
    opened, gradients, share, _, truth, _ = train(weak=True)
    assert error_of(followed(opened, gradients, share), truth) < 0.01


def test_with_weights_that_nobody_knows_it_does_not():
    opened, gradients, share, key, truth, start = train(weak=False)
    assert error_of(followed(opened, gradients, start), truth) < 0.01  # the attack is right: it lacks W alone
    assert error_of(followed(opened, gradients, share), truth) > 0.9  # its share is uniform in the ring
    factor, rng = torch.from_numpy(signs(INPUTS, WIDTH, key)).double(), generator(0, "recursion")
    for _ in range(10):  # nor does its factor help
        other = 2 * torch.rand(factor.shape[1], WIDTH, generator=rng).double() - 1
        guess = factor @ other / (INPUTS * factor.shape[1]) ** 0.5
        assert error_of(followed(opened, gradients, guess), truth) > 0.5
