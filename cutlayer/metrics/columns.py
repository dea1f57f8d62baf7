"""Recovered columns against true ones: two-valued columns, each known up to complement."""

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.bool_]


def two_valued(table: NDArray[np.number]) -> tuple[Bits, list[int]]:
    """The columns with exactly two values, as bits (rows x columns), and their numbers."""
    low, high = table.min(axis=0), table.max(axis=0)
    chosen = [
        j
        for j in range(table.shape[1])
        if low[j] < high[j] and ((table[:, j] == low[j]) | (table[:, j] == high[j])).all()
    ]
    return table[:, chosen] == high[chosen], chosen


def with_sums(columns: Bits, most: int = 8) -> Bits:
    """Two-valued columns and the sums of those that are never 1 in the same row, as one-hot columns are.

    Such a sum lies in the same span and has two values, so it tells as much. With more than `most`
    columns there would be too many sums: then the columns alone.
    """
    sums = [columns[:, j] for j in range(columns.shape[1])]
    for j in range(columns.shape[1]) if columns.shape[1] <= most else ():
        sums += [other | columns[:, j] for other in sums[j + 1 :] if not (other & columns[:, j]).any()]
    if not sums:
        return columns
    distinct = np.unique(np.column_stack(sums), axis=1)
    return np.asarray(distinct[:, ~distinct.all(axis=0)])


def agreement(claimed: Bits, truth: Bits) -> NDArray[np.float64]:
    """Share of rows on which each claimed column says the same as each true one, up to complement (claimed x true)."""
    signs = 1.0 - 2.0 * claimed, 1.0 - 2.0 * truth
    return np.asarray(0.5 + 0.5 * np.abs(signs[0].T @ signs[1]) / len(truth))


def best_match(claimed: Bits, truth: Bits) -> Bits:
    """For each true column the claimed one that says the same most often, turned the right way round (rows x true).

    A constant guess stands among the claimed ones, so a column that nobody claimed counts as often right
    as its commoner value.
    """
    known = np.column_stack([claimed, np.zeros(len(truth), dtype=np.bool_)])
    best = known[:, agreement(known, truth).argmax(axis=0)]
    turned = (best == truth).mean(axis=0) < 0.5
    return np.asarray(best ^ turned)


def correlations(values: NDArray[np.number]) -> list[list[float]]:
    """Pearson's correlation of every two columns; 0 with a column that does not vary."""
    centred = values.astype(np.float64) - values.mean(axis=0, dtype=np.float64)
    length = np.linalg.norm(centred, axis=0)
    unit = centred / np.where(length > 0, length, 1.0)
    matrix: list[list[float]] = np.round(unit.T @ unit, 4).tolist()
    return matrix
