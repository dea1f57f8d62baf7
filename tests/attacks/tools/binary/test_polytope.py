import numpy as np
import pytest
from scipy.optimize import linprog

from cutlayer.attacks.tools.binary.polytope import maximise
from cutlayer.attacks.tools.binary.span import span_of
from tests.helpers.binary_tables import table


def test_it_solves_the_linear_programme():
    rng = np.random.default_rng(0)
    wide = np.column_stack([rng.standard_normal((60, 4)), np.ones(60)])
    objective = rng.standard_normal(5)
    values = maximise(wide, objective)
    both, limits = np.vstack([wide, -wide]), np.repeat([1.0, 0.0], 60)
    best = -linprog(-objective, A_ub=both, b_ub=limits, bounds=(None, None)).fun
    reached = objective @ np.linalg.lstsq(wide, values)[0]
    assert values.min() > 0 and values.max() < 1 and reached == pytest.approx(best, rel=5e-3)


def test_a_full_factorial_table_has_no_other_vertices():
    """All 3 x 2 x 4 combinations: a programme ends at a 0/1 column or at an integer one between its bounds."""
    grid = np.array(np.meshgrid(range(3), range(2), range(4))).reshape(3, -1).T.astype(float)
    wide = np.column_stack([grid - grid.mean(axis=0), np.ones(24)])
    values = maximise(wide, np.array([0.0, 1, 0, 0]))
    assert np.abs(values - grid[:, 1]).max() < 0.01


def test_a_penalty_of_the_mean_leads_to_rare_values():
    columns, bits = table(2000, 40, shares=(0.05,))
    points = span_of(columns, centred=True).basis * 2000**0.5
    wide = np.column_stack([points, np.ones(2000)])
    hits = 0
    for row in np.flatnonzero(bits[0])[:5]:
        objective = wide[row].copy()
        objective[-1] -= 4
        hits += bool(((maximise(wide, objective) > 0.5) == bits[0]).all())
    assert hits >= 4
