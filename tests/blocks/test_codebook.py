"""Target codes: distinct, fair, the same for all who know the seed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cutlayer.blocks.codebook import check_codes, hamming, least_bits, target_codes
from cutlayer.defences import Hash
from cutlayer.errors import ConfigError, ProtocolError
from cutlayer.plan import Plan, assemble
from tests.helpers.small_task import make_task


@pytest.mark.parametrize(
    ("classes", "bits"), [(2, 1), (3, 2), (4, 2), (5, 3), (7, 3), (8, 3), (10, 4), (100, 7), (128, 7), (129, 8)]
)
def test_the_shortest_code(classes, bits):
    assert least_bits(classes) == bits and 2**bits >= classes > 2 ** (bits - 1) - (bits == 1)


@given(st.integers(2, 12), st.integers(4, 20), st.integers(0, 10**6))
def test_codes_are_distinct_signs_and_follow_from_the_seed(classes, bits, seed):
    codes = target_codes(classes, bits, seed)
    assert codes.shape == (classes, bits) and codes.dtype is torch.float32 and (codes.abs() == 1).all()
    assert len(codes.unique(dim=0)) == classes
    target_codes.cache_clear()
    assert torch.equal(target_codes(classes, bits, seed), codes)


def test_another_seed_or_name_gives_other_codes():
    books = [target_codes(10, 16, 0), target_codes(10, 16, 1), target_codes(10, 16, 0, "p1")]
    books.append(target_codes(10, 16, 0, "p2"))
    assert all(not torch.equal(a, b) for i, a in enumerate(books) for b in books[i + 1 :])


def test_more_classes_only_add_codes():
    assert torch.equal(target_codes(10, 16, 5)[:4], target_codes(4, 16, 5))


def test_all_parties_draw_the_same():
    plan = Plan(defences=(Hash(bits=8),), seed=11)
    session = assemble(make_task(3, "p0"), plan, lambda message: None)
    books = [target_codes(p.setting.classes, 8, p.setting.shared_seed) for p in session.parties.values()]
    assert len(books) == 3 and all(torch.equal(book, books[0]) for book in books)
    assert len({p.setting.private_seed for p in session.parties.values()}) == 3


@pytest.mark.parametrize(("classes", "bits"), [(2, 1), (8, 3), (256, 8)])
def test_as_many_codes_as_there_are(classes, bits):
    codes = target_codes(classes, bits, 3)
    numbers = ((codes > 0).long() * 2 ** torch.arange(bits)).sum(dim=1)
    assert numbers.sort().values.tolist() == list(range(classes))


@pytest.mark.parametrize(("classes", "bits"), [(3, 1), (10, 3), (129, 7)])
def test_too_few_bits_are_refused(classes, bits):
    with pytest.raises(ConfigError, match=f"at least {bits + 1} bits to tell {classes} classes apart, got {bits}"):
        target_codes(classes, bits, 0)


def test_each_bit_is_fair():
    """2000 seeds, 2 classes, 16 bits: shares within four standard errors of one half, per class and bit.

    Of the two codes the second is drawn to differ, which at 16 bits moves its shares by less than 2^-16.
    """
    books = torch.stack([target_codes(2, 16, seed) for seed in range(2000)])
    shares = (books > 0).double().mean(dim=0)
    assert (shares - 0.5).abs().max().item() < 4.5 * 0.5 / 2000**0.5
    overlap = (books[:, 0] * books[:, 1]).sum(dim=1)  # near-orthogonal in expectation only
    assert overlap.mean().item() == pytest.approx(0, abs=4 * 4 / 2000**0.5)
    assert overlap.var().item() == pytest.approx(16, rel=0.15)


def test_hamming_by_hand():
    first = torch.tensor([[1.0, 1, -1, -1], [1, 1, 1, 1]])
    second = torch.tensor([[1.0, -1, -1, 1], [-1, -1, -1, -1]])
    assert hamming(first, second).tolist() == [2, 4]
    assert hamming(first, first).tolist() == [0, 0]


@given(st.integers(1, 40), st.integers(0, 999))
def test_hamming_is_half_the_length_times_one_minus_the_cosine(bits, seed):
    first, second = 2.0 * torch.randint(0, 2, (2, 5, bits), generator=torch.Generator().manual_seed(seed)) - 1
    cosine = torch.cosine_similarity(first, second, dim=1)
    assert hamming(first, second).tolist() == pytest.approx((bits / 2 * (1 - cosine)).tolist(), abs=1e-4)
    assert hamming(first, second).tolist() == (first != second).sum(dim=1).tolist()


def test_check_codes_says_who_sent_what():
    good = torch.tensor([[1.0, -1], [1, 1]])
    check_codes({"p1": good, "p2": -good}, 2)
    check_codes({"p1": good / 3}, 2, binary=False)
    with pytest.raises(ProtocolError, match=r"codes of 2 bits from p2, got shape \(3,\)"):
        check_codes({"p1": good, "p2": torch.ones(2, 3)}, 2)
    with pytest.raises(ProtocolError, match=r"codes of \+1 and -1 from p2, got other numbers"):
        check_codes({"p1": good, "p2": good / 2}, 2)
    with pytest.raises(ProtocolError, match="other numbers"):
        check_codes({"p1": good * float("nan")}, 2)
