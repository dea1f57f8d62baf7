"""Random streams: they repeat, and all bits of a secret seed count."""

import torch

from cutlayer.rng import AT, SECRET, WORDS, Stream, derive, generator, secret_seed

ONE = SECRET + int.from_bytes(b"thirty-two bytes that are secret", "little")


def draws(seed, *names):
    return torch.randn(4, generator=generator(seed, *names)).tolist()


def test_seeds_that_differ_beyond_32_bits_give_other_numbers():
    """torch keeps 32 bits of a seed: an attacker that sees noise could try them all."""
    seed = ONE
    assert torch.equal(*(torch.randn(4, generator=torch.Generator().manual_seed(s)) for s in (7, 7 + 2**40)))
    for bit in (33, 64, 200):
        other = seed ^ (1 << bit)
        assert draws(seed) != draws(other)
        assert derive(seed, "party") != derive(other, "party")
    assert draws(seed) == draws(seed) and draws(seed, "a") != draws(seed, "b")


def test_a_secret_stays_one():
    assert all(seed >= SECRET for seed in (secret_seed(), derive(secret_seed(), "a"), derive(derive(SECRET, "a"), "b")))
    assert all(derive(seed, "a") < SECRET for seed in (0, 1, SECRET - 1))
    assert secret_seed() != secret_seed()


def test_all_words_of_the_generator_come_from_a_secret():
    state = generator(ONE).get_state()[AT : AT + 8 * WORDS].view(torch.int64)
    assert (
        len(state.unique()) > WORDS - 3 and state.max() < 2**32 and (state >= 2**31).float().mean().sub(0.5).abs() < 0.1
    )
    plain = torch.Generator().manual_seed(5).get_state()[AT : AT + 8 * WORDS].view(torch.int64)
    assert plain[0] == 5  # where torch keeps them


def test_draws_of_a_secret_are_normal():
    rng = generator(ONE)
    sample = torch.randn(100_000, generator=rng)
    assert abs(float(sample.mean())) < 0.02 and abs(float(sample.std()) - 1) < 0.02


def test_a_stream_repeats_and_leaves_the_global_one_alone():
    seed, before = ONE, torch.get_rng_state()
    stream, again = Stream(seed, "a"), Stream(seed, "a")
    with stream.scope():
        draw = torch.rand(3)
    with again.scope():
        assert torch.equal(draw, torch.rand(3))
    assert torch.equal(before, torch.get_rng_state())


def test_small_seeds_are_as_ever():
    """Published results stand on them."""
    usual = torch.Generator().manual_seed(derive(3, "x"))
    assert torch.equal(torch.rand(3, generator=generator(3, "x")), torch.rand(3, generator=usual))
