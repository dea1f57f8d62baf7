"""Lift: two-valued columns as exact quadratic relations between the messages of a row, which are linear unknowns.

In whitened rows x a two-valued column w.x satisfies x'Ax + v.x = 1 with A = ww', v = -g w, in every
row. Where rows are fewer than unknowns the relations cannot be solved for; but A is positive, and
random rows stop admitting any such A near d^2/4 rows. A fit that is stopped early already leans
towards the columns sought: its strongest eigenvectors are where to start.

Specification: binary-search, sections 1 and 4.
"""

import numpy as np

from cutlayer.attacks.tools.binary.clock import Clock
from cutlayer.attacks.tools.binary.polish import Singles, weights

POWER = 12  # steps towards the largest curvature
AWAY = 3e-4


def measure(points: Singles, matrix: Singles, vector: Singles) -> Singles:
    """x'Ax + v.x of every row."""
    return np.einsum("ij,ij->i", points @ matrix, points) + points @ vector  # type: ignore[no-any-return]


def gather(points: Singles, pull: Singles) -> tuple[Singles, Singles]:
    """The sum of pull (xx', x) over the rows: the adjoint of `measure`."""
    scaled = np.multiply(points, pull[:, None], dtype=np.float32)
    return scaled.T @ points, points.T @ pull


def fit(points: Singles, steps: int, known: Singles, clock: Clock) -> Singles:
    """Eigenvectors of A, those of the largest eigenvalues first, after so many steps of FISTA with restarts.

    What A has along the known directions costs AWAY, so that other columns come to the fore. To fit in their
    complement instead would be wrong: columns that correlate with known ones have more than two values there.
    """
    size = points.shape[1]
    weight = weights(points)
    rate = np.float32(1 / _steepest(points, weight))
    away = np.float32(AWAY) * known @ known.T
    matrix = np.eye(size, dtype=np.float32) / size
    vector = np.zeros(size, np.float32)
    ahead, ahead_vector, momentum = matrix, vector, 1.0
    vectors = matrix
    for _ in range(steps):
        if clock.over:
            break
        slope, slope_vector = gather(points, weight * (measure(points, ahead, ahead_vector) - 1))
        values, vectors = np.linalg.eigh(ahead - rate * (slope + away))
        values = np.maximum(values, 0)
        new, new_vector = (vectors * values) @ vectors.T, ahead_vector - rate * slope_vector
        back = ((ahead - new) * (new - matrix)).sum() + (ahead_vector - new_vector) @ (new_vector - vector)
        momentum = 1.0 if back > 0 else momentum
        grown = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        over = np.float32((momentum - 1) / grown)
        ahead, ahead_vector = new + over * (new - matrix), new_vector + over * (new_vector - vector)
        matrix, vector, momentum = new, new_vector, grown
    strongest: Singles = vectors[:, ::-1]
    return strongest


def _steepest(points: Singles, weight: Singles) -> float:
    """The largest curvature of the misfit, a little more, by power iteration from the identity."""
    matrix: Singles = np.eye(points.shape[1], dtype=np.float32)
    vector: Singles = np.full(points.shape[1], 0.1, np.float32)
    for _ in range(POWER):
        size = np.float32(_length(matrix, vector))
        matrix, vector = gather(points, weight * measure(points, matrix / size, vector / size))
    return 1.05 * _length(matrix, vector)


def _length(matrix: Singles, vector: Singles) -> float:
    return float(np.sqrt((matrix * matrix).sum() + vector @ vector))
