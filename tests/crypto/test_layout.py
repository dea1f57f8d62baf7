"""SEAL's byte layout, pinned: the fast way in and out relies on it."""

import numpy as np
import pytest

from cutlayer.crypto import layout, parameters
from cutlayer.crypto.bodies import polynomial_bytes, read_polynomials, write_polynomials
from cutlayer.crypto.context import N, context_of
from cutlayer.crypto.envelope import CipherForm
from cutlayer.crypto.flood import flood
from cutlayer.crypto.parameters import BFV_SETS
from cutlayer.crypto.spectrum import factors, spectrum_of, whole


def test_plaintext_bytes_are_those_of_the_hexadecimal_form():
    seal = context_of(40).seal
    plain = seal.Plaintext("7FFx^3 + 1x^1 + 5")
    words = np.array([5, 1, 0, 0x7FF], np.uint64)
    assert plain.to_bytes() == layout.plain_prefix(4) + words.tobytes()
    assert layout.coefficients(plain.to_bytes(), 6).tolist() == [5, 1, 0, 0x7FF, 0, 0]
    wide = np.zeros(N, np.uint64)
    wide[[0, 1, 3]] = [5, 1, 0x7FF]
    assert context_of(40).plain(wide).to_string() == plain.to_string()


@pytest.mark.parametrize("bits", BFV_SETS)
def test_ciphertext_bytes_are_a_prefix_and_residues(bits, request):
    context, secret = context_of(bits), request.getfixturevalue({40: "bfv", 48: "bfv_wide", 56: "bfv_widest"}[bits])
    operand = secret.encrypt(np.ones((1, 1), np.int64)).parts[0]
    data = operand.to_string()
    assert (
        data[: layout.CIPHER_BYTES] == context.prefix[CipherForm.OPERAND] and len(data) == layout.CIPHER_BYTES + 48 * N
    )
    words = layout.residues(data, 3, N)
    for index, prime in enumerate(context.primes[CipherForm.OPERAND]):
        assert prime * 0.9 < words[:, index].max() < prime
    key = secret.public._key.to_string()
    assert key[: layout.CIPHER_BYTES] == context.prefix[CipherForm.KEY] and len(key) == layout.CIPHER_BYTES + 64 * N
    primes = context.primes[CipherForm.OPERAND]
    body = write_polynomials(words, primes)
    assert len(body) == 2 * polynomial_bytes(primes) == 2 * N * {40: 21, 48: 22, 56: 22}[bits]
    assert np.array_equal(read_polynomials(memoryview(body), primes), words)


@pytest.mark.parametrize("bits", BFV_SETS)
def test_the_parameters_are_those_of_the_table(bits):
    chosen, context = BFV_SETS[bits], context_of(bits)
    sizes = [prime.bit_length() for prime in context.primes[CipherForm.KEY]]
    assert sizes == [*chosen.primes, chosen.special] and sum(sizes) == {40: 217, 48: 217, 56: 199}[bits]
    for word in (" + ".join(map(str, chosen.primes)), f"±2^{chosen.flood} (t = 2^{bits})"):
        assert word in parameters.__doc__
    assert context.seal.CoeffModulus.MaxBitCount(N) == 218  # what 128-bit security allows
    assert context.context.first_context_data().qualifiers().sec_level == context.seal.sec_level_type.tc128


@pytest.mark.parametrize("bits", BFV_SETS)
def test_half_of_an_operand_grows_from_its_seed(bits, request):
    context, secret = context_of(bits), request.getfixturevalue({40: "bfv", 48: "bfv_wide", 56: "bfv_widest"}[bits])
    operand = secret.encrypt(secret.public.ring.uniform((3, 5)))
    assert len(operand.to_bytes()) < 3 * polynomial_bytes(context.primes[CipherForm.OPERAND]) + 200
    for index, part in enumerate(operand.parts):
        words, grown = layout.residues(part.to_string(), 3, N), context.second_half(operand.seed, index)
        assert np.array_equal(words[1], grown) and not np.array_equal(words[0], grown)
        for row, prime in zip(grown, context.primes[CipherForm.OPERAND], strict=True):
            counts = np.histogram(row, bins=16, range=(0, prime))[0]
            assert row.max() < prime and ((counts - N / 16) ** 2 / (N / 16)).sum() < 55
    again = secret.encrypt(secret.public.ring.uniform((3, 5)))
    assert again.seed != operand.seed


@pytest.mark.parametrize("bits", BFV_SETS)
def test_the_flood_is_one_wide_uniform_integer_seen_modulo_each_prime(bits):
    chosen, primes = BFV_SETS[bits], context_of(bits).primes[CipherForm.OPERAND]
    count = 4000
    words = flood(chosen.flood, primes, count)
    product = primes[0] * primes[1] * primes[2]
    values = []
    for column in words.T.tolist():
        value = (
            sum(r * (product // p) * pow(product // p, -1, p) for r, p in zip(column, primes, strict=True)) % product
        )
        values.append(value - product if value > product // 2 else value)
    top = 1 << chosen.flood
    assert -top <= min(values) and max(values) < top
    parts = np.histogram([value / top for value in values], bins=16, range=(-1, 1))[0]
    assert ((parts - count / 16) ** 2 / (count / 16)).sum() < 55  # 15 degrees of freedom: beyond has probability 2e-6
    odd = sum(value % 2 for value in values)
    assert abs(odd - count / 2) < 5 * (count / 4) ** 0.5


def test_small_floods_are_right_too():
    words = flood(3, (101, 103), 1000)
    centred = np.where(
        words.astype(np.int64) > 50, words.astype(np.int64) - np.array([[101], [103]]), words.astype(np.int64)
    )
    assert np.array_equal(centred[0], centred[1]) and sorted(set(centred[0].tolist())) == list(range(-8, 8))


@pytest.mark.parametrize("bits", BFV_SETS)
@pytest.mark.parametrize("run", [32, 64, 1024, 8192])
def test_the_short_transform_equals_the_whole(bits, run):
    context, rng = context_of(bits), np.random.default_rng(run)
    for size in (1, 1000, 2**25):
        table = rng.integers(-size, size, (3, N // run), endpoint=True)
        table[0] = size
        assert spectrum_of(bits, run).holds(table)
        for row, plain in zip(table, factors(context, bits, table), strict=True):
            polynomial = np.zeros(N, np.int64)
            polynomial[::run] = row & ((1 << bits) - 1)
            assert plain.to_bytes() == whole(context, polynomial.view(np.uint64)).to_bytes()


def test_numbers_too_large_for_the_short_transform_take_the_whole():
    context, table = context_of(40), np.full((1, 256), -(2**39))
    assert not spectrum_of(40, 32).holds(table)
    polynomial = np.zeros(N, np.uint64)
    polynomial[::32] = 2**39
    (plain,) = factors(context, 40, table)
    assert plain.to_bytes() == whole(context, polynomial).to_bytes()
