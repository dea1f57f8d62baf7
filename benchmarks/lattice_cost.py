"""What it costs to break our BFV keys: the primal attack (uSVP) in the core-SVP model, classical and quantum.

    python -m benchmarks.lattice_cost

A key or a ciphertext is a sample of RLWE: degree N, modulus q, a ternary secret, errors of deviation 3.2. Nobody
knows a better use of the ring than to forget it, so this is LWE of dimension N with as many samples as an attacker
likes. It takes m of them, and looks for the one short vector (error, scaled secret, 1) of a lattice of dimension
d = N + m + 1 and volume q^m s^N, where s = 3.2 / sqrt(2/3) makes the secret as large as the error (Bai and
Galbraith, ACISP 2014). BKZ with blocks of beta finds it if (Alkim, Ducas, Poeppelmann and Schwabe, USENIX Security
2016)

    3.2 sqrt(beta) <= delta^(2 beta - d) volume^(1/d),   delta = ((pi beta)^(1/beta) beta / (2 pi e))^(1/(2 beta - 2))

The least beta over all m is printed. Sieving one block takes 2^(0.292 beta), on a quantum computer 2^(0.265 beta):
that is core-SVP, which forgets that sieves have large constants and that BKZ needs thousands of blocks. "All blocks"
counts them: 8 d sieves of 2^(0.292 beta + 16.4), the model behind the tables of homomorphicencryption.org, which SEAL's
tc128 holds keys to; for the largest modulus there it gives the tables' 128 bits. Dual and hybrid attacks are left out.
"""

import math
from dataclasses import dataclass

from cutlayer.crypto.parameters import BFV_DEGREE, BFV_SETS

ERROR = 3.2
SECRET = math.sqrt(2 / 3)
CLASSICAL, QUANTUM = 0.292, 0.265


@dataclass(frozen=True)
class Cost:
    """The cheapest primal attack: block size, dimension, and log2 of operations."""

    block: int
    dimension: int

    @property
    def classical(self) -> float:
        """Core-SVP on an ordinary computer."""
        return CLASSICAL * self.block

    @property
    def quantum(self) -> float:
        """Core-SVP on a quantum computer."""
        return QUANTUM * self.block

    @property
    def all_blocks(self) -> float:
        """All blocks of BKZ, with a sieve's constant."""
        return CLASSICAL * self.block + 16.4 + math.log2(8 * self.dimension)


def reaches(block: int, dimension: int, degree: int, log_q: float) -> bool:
    """Whether BKZ with such blocks finds the short vector in a lattice of such a dimension."""
    samples = dimension - degree - 1
    log_delta = math.log2((math.pi * block) ** (1 / block) * block / (2 * math.pi * math.e)) / (2 * block - 2)
    volume = samples * log_q + degree * math.log2(ERROR / SECRET)
    return math.log2(ERROR) + math.log2(block) / 2 <= (2 * block - dimension) * log_delta + volume / dimension


def cheapest(degree: int, log_q: float) -> Cost:
    """The least block size over all numbers of samples, up to twice the degree."""
    low, high = 60, degree

    def dimension_of(block: int) -> int | None:
        options = range(degree + 2, 3 * degree, 8)
        return next((dimension for dimension in options if reaches(block, dimension, degree, log_q)), None)

    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if dimension_of(middle) else (middle + 1, high)
    dimension = dimension_of(low)
    assert dimension is not None
    return Cost(low, dimension)


def main() -> None:
    """Print one line for each set of parameters, and for the table's largest modulus."""
    moduli = {f"t = 2^{bits}": sum(chosen.primes) + chosen.special for bits, chosen in BFV_SETS.items()}
    print("| keys | N | log2 q | beta | dimension | classical | quantum | all blocks |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, log_q in {**moduli, "most that tc128 takes": 218}.items():
        cost = cheapest(BFV_DEGREE, log_q)
        figures = f"{cost.classical:.0f} | {cost.quantum:.0f} | {cost.all_blocks:.0f}"
        print(f"| {name} | {BFV_DEGREE} | {log_q} | {cost.block} | {cost.dimension} | {figures} |")


if __name__ == "__main__":
    main()
