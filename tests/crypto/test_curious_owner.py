"""The key owner wants the evaluator's rows. Without sanitising it gets all of them; with it, a coin does as well."""

import itertools

import numpy as np
import pytest

from cutlayer.crypto import layout
from cutlayer.crypto.bfv import context_of
from cutlayer.crypto.envelope import CipherForm
from tests.helpers.ciphers import draw

ROWS, INNER, COLUMNS = 8, 8, 64


def solve(equations, right, prime):
    """Gaussian elimination modulo a prime, in Python's integers."""
    system = [[*map(int, row), int(value)] for row, value in zip(equations, right, strict=True)]
    size = len(system)
    for column in range(size):
        pivot = next(r for r in range(column, size) if system[r][column] % prime)
        system[column], system[pivot] = system[pivot], system[column]
        inverse = pow(system[column][column], -1, prime)
        system[column] = [value * inverse % prime for value in system[column]]
        for r in range(size):
            if r != column and system[r][column]:
                factor, source = system[r][column], system[column]
                system[r] = [(a - factor * b) % prime for a, b in zip(system[r], source, strict=True)]
    return [row[-1] for row in system]


def second_polynomial(cipher):
    """c1 modulo the first prime, as Python integers."""
    context = context_of(40)
    cipher = context.evaluator.transform_from_ntt(cipher) if cipher.is_ntt_form() else cipher
    return layout.residues(cipher.to_string(), 3, 8192)[1, 0].astype(object)


def attack(operand, cipher):
    """c1 = sum_i a_i p_i is linear in the rows, and the owner knows every a_i: as many equations as unknowns."""
    prime = context_of(40).primes[CipherForm.OPERAND][0]
    known = [second_polynomial(part) for part in operand.parts]
    unknowns = list(itertools.product(range(ROWS), range(INNER)))
    picked = range(len(unknowns))  # coefficients of c1 that serve as equations

    def coefficient(polynomial, index):
        return polynomial[index] if index >= 0 else -polynomial[index]  # X^N = -1

    equations = [[coefficient(known[i], m - b * COLUMNS) for b, i in unknowns] for m in picked]
    c1 = second_polynomial(cipher)
    solution = solve(equations, [c1[m] for m in picked], prime)
    return np.array(solution, dtype=object).reshape(ROWS, INNER), prime


@pytest.fixture(scope="module")
def crime(bfv):
    ring = bfv.public.ring
    rows = np.random.default_rng(0).integers(0, 2, (ROWS, INNER))
    operand = bfv.encrypt(ring.uniform((INNER, COLUMNS)))
    bare = bfv.public.masked_product(rows, operand, ring.uniform((ROWS, COLUMNS)), sanitise=False)
    return bfv, rows, operand, bare.parts[0]


def copy_of(cipher):
    seal = context_of(40).seal
    other = seal.Ciphertext()
    other.load_bytes(context_of(40).context, cipher.to_string())
    return other


def test_from_a_bare_product_the_owner_recovers_every_row(crime):
    _, rows, operand, bare = crime
    guess, _ = attack(operand, bare)
    assert np.array_equal(guess.astype(np.int64), rows)


def test_from_a_sanitised_product_the_owner_does_no_better_than_a_coin(crime):
    """Given even the ciphertext before the modulus switches. 64 bits: beyond 12..52 has probability 1e-7."""
    secret, rows, operand, bare = crime
    cipher = copy_of(bare)
    secret.public._sanitise(cipher, int(rows.sum()))
    solution, prime = attack(operand, cipher)
    guess = (solution > prime // 2).astype(np.int64)
    assert 12 <= int((guess == rows).sum()) <= 52
    assert not np.array_equal(np.minimum(solution, 2).astype(np.int64), rows)


def test_the_flood_alone_does_not_help(crime):
    """It touches c0 only: the fresh encryption of zero is what hides c1."""
    _, rows, operand, bare = crime
    cipher, context = copy_of(bare), context_of(40)
    drown = np.zeros((2, 3, 8192), np.uint64)
    drown[0] = 12345
    context.evaluator.add_inplace(cipher, context.cipher(context.first_prefix, drown))
    assert np.array_equal(attack(operand, cipher)[0].astype(np.int64), rows)


def noise(secret, cipher):
    """What is left of a ciphertext when the owner has taken the number out: linear in the rows, like c1."""
    context, ring = context_of(40), secret.public.ring
    primes = context.primes[CipherForm.OPERAND]
    number = secret._coefficients(cipher).astype(object)
    cipher = cipher if cipher.is_ntt_form() else context.evaluator.transform_to_ntt(cipher)
    words = layout.residues(cipher.to_string(), 3, 8192)
    secret_part = context.cipher(context.prefix[CipherForm.OPERAND], np.stack([words[1], words[1]]))
    context.evaluator.multiply_plain_inplace(secret_part, secret._factor)
    total = layout.residues(secret_part.to_string(), 3, 8192)[0] + words[0]
    total %= np.array(primes, np.uint64)[:, None]
    opened = context.evaluator.transform_from_ntt(
        context.cipher(context.prefix[CipherForm.OPERAND], np.stack([total, total]))
    )
    residues = layout.residues(opened.to_string(), 3, 8192)[0].astype(object)
    q = primes[0] * primes[1] * primes[2]
    phase = sum(row * (q // p * pow(q // p, -1, p)) for row, p in zip(residues, primes, strict=True)) % q
    scaled = (phase * ring.modulus - number * q + q * ring.modulus // 2) % (q * ring.modulus) - q * ring.modulus // 2
    return (scaled / ring.modulus).astype(np.float64)


def attack_noise(secret, operand, cipher):
    """Least squares: 8192 equations, 64 unknowns, known factors."""
    known = [noise(secret, part) for part in operand.parts]
    pairs = [(known[i], b * COLUMNS) for b, i in itertools.product(range(ROWS), range(INNER))]
    system = np.stack([np.concatenate([-e[8192 - shift :], e[: 8192 - shift]]) for e, shift in pairs], axis=1)
    solution = np.linalg.lstsq(system, noise(secret, cipher), rcond=None)[0]
    return (solution > 0.5).astype(np.int64).reshape(ROWS, INNER)


def test_from_the_noise_of_a_bare_product_the_owner_recovers_every_row(crime):
    secret, rows, operand, bare = crime
    assert np.array_equal(attack_noise(secret, operand, bare), rows)


def test_a_fresh_zero_alone_does_not_help(crime):
    """It hides c1, but adds so little noise that least squares see through it: the flood is needed as well."""
    secret, rows, operand, bare = crime
    cipher = copy_of(bare)
    context_of(40).evaluator.add_inplace(cipher, secret.public._encryptor.encrypt_zero())
    assert not np.array_equal(np.minimum(attack(operand, cipher)[0], 2).astype(np.int64), rows)
    assert np.array_equal(attack_noise(secret, operand, cipher), rows)


def test_from_flooded_noise_the_owner_does_no_better_than_a_coin(crime):
    secret, rows, operand, bare = crime
    cipher = copy_of(bare)
    secret.public._sanitise(cipher, int(rows.sum()))
    assert np.abs(noise(secret, cipher)).max() > 2.0**115
    assert 12 <= int((attack_noise(secret, operand, cipher) == rows).sum()) <= 52


def test_noise_tells_the_size_of_the_rows_until_it_drowns(bfv):
    """The noise is linear in the rows. Bare, its size shows theirs; flooded, it is the same for any."""
    ring = bfv.public.ring
    operand = bfv.encrypt(ring.uniform((4, 64)))
    budgets = {}
    for sanitise in (False, True):
        for size in (1, 2**20):
            rows, mask = draw(ring, (128, 4), size, 0), ring.uniform((128, 64))
            result = bfv.public.masked_product(rows, operand, mask, sanitise=sanitise)
            budgets[sanitise, size] = bfv.noise_budget(result)
    assert budgets[False, 1] - budgets[False, 2**20] > 15
    assert budgets[True, 1] == budgets[True, 2**20]


def enumerate_rows(operand, result, n):
    """Modulo n a ciphertext is r^n alone, so a bare product is prod_i c_i^x_i: try every binary row. Needs no key."""
    bases = [int(part) % int(n) for part in operand.parts]
    table = {}
    for bits in itertools.product((0, 1), repeat=len(bases)):
        value = 1
        for base, bit in zip(bases, bits, strict=True):
            value = value * base**bit % int(n)
        table[value] = bits
    return [table.get(int(part) % int(n)) for part in result.parts]


@pytest.mark.parametrize("sanitise", [False, True])
def test_paillier_shows_binary_rows_unless_randomised_again(paillier, sanitise):
    ring = paillier.public.ring
    rows = np.random.default_rng(1).integers(0, 2, (12, 8))
    operand = paillier.encrypt(ring.uniform((8, 1)))
    result = paillier.public.masked_product(rows, operand, ring.uniform((12, 1)), sanitise=sanitise)
    guesses = enumerate_rows(operand, result, paillier.public.n)
    assert guesses == ([None] * 12 if sanitise else [tuple(row) for row in rows.tolist()])


def test_paillier_slots_hide_how_often_a_sum_wrapped_round(paillier):
    """The whole integer in a slot is mask + t*R + product: with a product of 2^78 or of zero it has the same range."""
    ring, slots = paillier.public.ring, paillier.public.slots(1)
    operand = paillier.encrypt(np.full((1, 1), ring.modulus >> 1))  # the most negative number
    tops = []
    for x in (0, (ring.modulus >> 1) - 1):
        mask = ring.uniform((40, 1))
        result = paillier.public.masked_product(np.full((40, 1), x), operand, mask)
        tops.append(np.array([paillier._number(part) >> ring.bits for part in result.parts], dtype=object))
    whole = 1 << (slots.product_bits - ring.bits + 49)
    for top in tops:
        assert min(top) >= 0 and max(top) < whole + (1 << 40)
    assert abs(float(tops[0].mean() - tops[1].mean())) / whole < 0.4  # one product is 2^-49 of the range
