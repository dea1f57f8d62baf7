"""Every security parameter in one place, with the reason for it; the documentation quotes this table.

| parameter | value | why |
| --- | --- | --- |
| security level | 128 bits | SEAL's `tc128` for BFV (homomorphicencryption.org tables); NIST SP 800-57 for 3072-bit n |
| adversary | semi-honest | each party follows the protocol and tries to learn from what it sees |
| BFV degree N | 8192 | the smallest whose modulus has room for the ring, the product and the flood |
| BFV primes, t = 2^40 | 54 + 54 + 54, special 55 | 217 of the 218 bits that 128 bits of security allow: no margin |
| BFV primes, t = 2^48 | 60 + 51 + 51, special 55 | the same 217 bits; 60 bits alone still decrypt, after two switches |
| BFV flood | uniform in ±2^116 (t = 2^40), ±2^110 (t = 2^48) | drowns the noise, which is linear in the rows |
| statistical distance | 2^-40 or less per ciphertext | N * noise / (2 * flood), checked for every product |
| a run's total | the sum of these: 2^-20 for a million ciphertexts | distances add up, and no run is stopped for it |
| Paillier modulus n | 3072 bits | NIST SP 800-57: 112 bits of security at 2048, 128 at 3072 |
| Paillier slot | full product + 48 bits + 2 | a cover 2^48 times larger than what it hides, in every slot |
| BFV operand | one polynomial in two from a 256-bit seed, SHAKE128 | public randomness; halves what crosses |
| masks | uniform modulo t, `os.urandom` | perfect hiding in the ring |
| key agreement | X25519, HKDF-SHA256, AES-256-CTR | 128 bits; one key per pair, run and purpose, one stream per step |
"""

from dataclasses import dataclass

SECURITY_BITS = 128
STATISTICAL_BITS = 40


@dataclass(frozen=True, slots=True)
class BfvSet:
    """The modulus chain for one ring: sizes of primes in bits, and log2 of the largest flood."""

    primes: tuple[int, int, int]
    special: int
    flood: int


BFV_DEGREE = 8192
BFV_SETS = {40: BfvSet((54, 54, 54), 55, 116), 48: BfvSet((60, 51, 51), 55, 110)}  # by the ring's bits
BFV_FRESH_NOISE = 1 << 13  # no fresh ciphertext is noisier: (1 + |s|_1)/2 <= 4097 from dropping the special prime
BFV_OPERAND_CIPHERTEXTS = 2730  # 1 GiB; a matrix with more rows puts several into one ciphertext

PAILLIER_KEY_BITS = 3072
PAILLIER_MOST_BITS = 8192
PAILLIER_TEST_BITS = 512  # the smallest key that tests may ask for
PAILLIER_COVER_BITS = 48  # per slot; 2^-40 or less for a ciphertext of up to 256 slots
