"""Where the numbers of a product sit in polynomials, so that one multiplication does the work of many and none rotates.

With c columns, row i of the matrix becomes `sum_j M[i,j] X^j`, and column i of the plain rows becomes
`sum_b x[b,i] X^(b*c)`. The sum over i of their products holds `(x M)[b,j]` at coefficient `b*c + j`:
N // c rows per ciphertext, and every coefficient is of use.

A matrix with very many rows (text) would need as many ciphertexts. There, `group` rows share one: row i
sits `(i % group) * c` coefficients up and its multiplier `(group - 1 - i % group) * c`, so that the wanted
sums meet at slot `b*group + group - 1` and all else falls between them (or wraps round to before the
first), where a uniform mask hides it. An operand shrinks by `group`; replies grow by as much.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cutlayer.crypto.envelope import MatrixSource
from cutlayer.crypto.rows import PlainRows
from cutlayer.errors import ConfigError

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
AT_ONCE = 128  # multipliers built together: 8 MB at most


@dataclass(frozen=True, slots=True)
class Packing:
    """The places for a matrix of `rows` x `columns` in polynomials of `degree` coefficients."""

    rows: int
    columns: int
    degree: int
    group: int = 1

    @classmethod
    def choose(cls, source: MatrixSource, degree: int, most: int, weight: int) -> "Packing":
        """For a matrix to keep, the smallest group that needs at most `most` ciphertexts.

        For one that meets `for_rows` rows and is replaced, the group with the least to send both ways,
        where a ciphertext of the matrix is `weight` times as long as one of a reply.
        """
        packing = cls(source.rows, source.columns, degree)
        fitting = [packing]
        while (packing := replace(packing, group=2 * packing.group)).group * packing.width <= degree:
            fitting.append(packing)
        fitting = [option for option in fitting if option.operands <= most]
        if not fitting:
            raise ConfigError(
                f"Expected a matrix that fits {most} ciphertexts, got shape {(source.rows, source.columns)}."
            )
        if not source.for_rows:
            return fitting[0]
        return min(fitting, key=lambda option: weight * option.operands + option.results(source.for_rows))

    @property
    def blocks(self) -> int:
        """Blocks of columns: one, unless there are more columns than coefficients."""
        return -(-self.columns // self.degree)

    @property
    def width(self) -> int:
        """Columns of a block (the last may have fewer)."""
        return -(-self.columns // self.blocks)

    @property
    def groups(self) -> int:
        """Ciphertexts of one block of the matrix."""
        return -(-self.rows // self.group)

    @property
    def operands(self) -> int:
        """Ciphertexts of the matrix."""
        return self.blocks * self.groups

    @property
    def capacity(self) -> int:
        """Rows of a product that one ciphertext holds."""
        return self.degree // (self.group * self.width)

    def results(self, rows: int) -> int:
        """Ciphertexts of a product with so many rows."""
        return self.blocks * -(-rows // self.capacity)

    def spans(self) -> Iterator[slice]:
        """The columns of each block."""
        for start in range(0, self.columns, self.width):
            yield slice(start, min(start + self.width, self.columns))

    def operand(self, matrix: Integers) -> Iterator[Words]:
        """One polynomial per ciphertext of the matrix, block by block."""
        return (self.polynomial(matrix, number) for number in range(self.operands))

    def polynomial(self, matrix: Integers, number: int) -> Words:
        """The polynomial of one ciphertext of the matrix."""
        block, group = divmod(number, self.groups)
        cells = matrix[group * self.group : (group + 1) * self.group, block * self.width : (block + 1) * self.width]
        polynomial = np.zeros(self.degree, np.uint64)
        for index, row in enumerate(cells):
            polynomial[index * self.width : index * self.width + len(row)] = row
        return polynomial

    @property
    def run(self) -> int:
        """The largest power of two that divides the width: every multiplier is a polynomial in X^run."""
        return self.width & -self.width

    def multipliers(self, chunk: PlainRows) -> Iterator[tuple[list[int], Integers]]:
        """Some groups of columns that are not all zero in this chunk, and a row of coefficients for each.

        Coefficients are those of 1, X^run, X^2run and so on, as all others are zero.
        """
        held = np.nonzero(chunk.values)[0]
        rows, columns = chunk.rows[held], chunk.columns[held]
        place = (rows * self.group + self.group - 1 - columns % self.group) * (self.width // self.run)
        present, which = np.unique(columns // self.group, return_inverse=True)
        order = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[order], np.arange(0, len(present) + AT_ONCE, AT_ONCE))
        for number, (start, stop) in enumerate(pairwise(bounds)):
            entries, groups = order[start:stop], present[number * AT_ONCE : (number + 1) * AT_ONCE]
            table = np.zeros((len(groups), self.degree // self.run), np.int64)
            table[which[entries] - number * AT_ONCE, place[entries]] = chunk.values[held][entries]
            yield groups.tolist(), table

    def chunks(self, rows: int) -> Iterator[tuple[slice, slice, Integers]]:
        """Of each ciphertext of a product: its rows, its columns, and the coefficients that hold them."""
        for span in self.spans():
            for start in range(0, rows, self.capacity):
                lines = slice(start, min(start + self.capacity, rows))
                slots = np.arange(lines.stop - start) * self.group + self.group - 1
                yield lines, span, slots[:, None] * self.width + np.arange(span.stop - span.start)[None, :]

    def read_operand(self, polynomials: list[Integers]) -> Integers:
        """Undo `operand`."""
        out = np.empty((self.rows, self.columns), np.int64)
        for block, span in enumerate(self.spans()):
            for row in range(self.rows):
                start = row % self.group * self.width
                polynomial = polynomials[block * self.groups + row // self.group]
                out[row, span] = polynomial[start : start + span.stop - span.start]
        return out
