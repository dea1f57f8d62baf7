"""Bits and halves on the wire: by hand, there and back, and what is refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cutlayer.errors import ProtocolError, RunError
from cutlayer.message import Batch, Kind, Phase, send
from cutlayer.wire import Encoding, decode, encode, encoded_size

BITS, HALF, PLAIN = Encoding.BITS, Encoding.HALF, Encoding.PLAIN


def test_eight_bits_to_a_byte_the_first_in_the_lowest_place():
    code = torch.tensor([[1.0, -1, 1, 1, -1, -1, -1, 1]])  # 1 + 4 + 8 + 128
    assert encode(code, BITS).tolist() == [141]
    assert encode(code, BITS).dtype is torch.uint8


def test_rows_follow_one_another_and_the_last_byte_is_filled_up_with_zeros():
    code = torch.tensor([[1.0, -1, 1], [1, 1, -1], [-1, -1, 1]])  # 1 0 1 1 1 0 0 0 | 1
    assert encode(code, BITS).tolist() == [1 + 4 + 8 + 16, 1]
    assert torch.equal(decode(torch.tensor([29, 1], dtype=torch.uint8), BITS, code), code)


def test_all_plus_and_all_minus():
    assert encode(torch.ones(2, 8), BITS).tolist() == [255, 255]
    assert encode(-torch.ones(2, 8), BITS).tolist() == [0, 0]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.sampled_from([torch.float32, torch.float64]), st.data())
def test_codes_of_any_shape_come_back(shape, dtype, data):
    seed = data.draw(st.integers(0, 999))
    code = 2 * torch.randint(0, 2, tuple(shape), generator=torch.Generator().manual_seed(seed)).to(dtype) - 1
    crossed = encode(code, BITS)
    assert crossed.shape == (encoded_size(code, BITS),) == (-(-code.numel() // 8),)
    back = decode(crossed, BITS, torch.empty_like(code))
    assert torch.equal(back, code) and back.dtype is dtype


@pytest.mark.parametrize(("encoding", "size"), [(PLAIN, 16384), (HALF, 8192), (BITS, 512)])
def test_sizes_of_a_batch_of_256_rows_of_16_numbers(encoding, size):
    codes = torch.ones(256, 16)
    assert encoded_size(codes, encoding) == size
    crossed = encode(codes, encoding)
    assert crossed.numel() * crossed.element_size() == size
    message = send(Batch(0, Phase.TRAIN, torch.arange(256)), "shop", "bank", Kind.EMBEDDING, codes, encoding)
    assert message.nbytes == size and torch.equal(message.payload, codes)


def test_plain_sizes_follow_the_type():
    assert encoded_size(torch.zeros(3, 5, dtype=torch.float64), PLAIN) == 120
    assert encoded_size(torch.zeros(3, 5, dtype=torch.float64), HALF) == 30
    assert encoded_size(torch.zeros(3, 3), BITS) == 2
    assert encoded_size(torch.zeros(0, 3), BITS) == 0


@pytest.mark.parametrize("wrong", [0.0, 0.5, -2.0, 1.0000001, float("inf")])
def test_other_numbers_are_not_packed(wrong):
    with pytest.raises(ProtocolError, match=r"Expected a code of \+1 and -1 to pack, got other numbers"):
        encode(torch.tensor([[1.0, wrong]]), BITS)


def test_not_a_number_is_divergence():
    with pytest.raises(RunError, match="Training diverged"):
        encode(torch.tensor([[1.0, float("nan")]]), BITS)


@pytest.mark.parametrize(
    "crossed",
    [
        torch.zeros(3, dtype=torch.uint8),
        torch.zeros(1, dtype=torch.uint8),
        torch.zeros(2, 1, dtype=torch.uint8),
        torch.zeros(2),
    ],
)
def test_the_wrong_number_of_bytes_is_refused(crossed):
    with pytest.raises(ProtocolError, match=r"Expected 2 bytes for a code of shape \(3, 5\), got shape"):
        decode(crossed, BITS, torch.empty(3, 5))


def test_halves_of_the_wrong_shape_are_refused():
    with pytest.raises(ProtocolError, match=r"Expected halves of shape \(3, 5\), got \(3, 4\)"):
        decode(torch.zeros(3, 4).half(), HALF, torch.empty(3, 5))


def test_halves_are_rounded_to_the_nearest_and_even_on_a_tie():
    """Between 1 and 2 halves are 1/1024 apart."""
    step = 2.0**-10
    sent = torch.tensor([1 + 0.4 * step, 1 + 0.6 * step, 1 + 0.5 * step, 1 + 1.5 * step, 2.0**-25, -3.0])
    back = decode(encode(sent, HALF), HALF, sent)
    assert back.tolist() == [1, 1 + step, 1, 1 + 2 * step, 0, -3]
    assert back.dtype is torch.float32


def test_plain_is_left_alone():
    payload = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    assert encode(payload, PLAIN) is payload and decode(payload, PLAIN, payload) is payload
