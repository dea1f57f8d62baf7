import numpy as np
import pytest

from cutlayer.attacks.tools.binary.catalogue import Catalogue
from cutlayer.attacks.tools.binary.polish import RULES, climb, levels, lloyd, polish, unit
from cutlayer.attacks.tools.binary.search import separate
from cutlayer.attacks.tools.binary.span import span_of
from tests.helpers.binary_tables import exact, sent, table


def whitened(columns):
    return span_of(columns, centred=True).basis * len(columns) ** 0.5


def test_a_two_valued_column_satisfies_its_quadratic_in_every_row():
    column = np.array([3.0, 3, 3, 7])
    y = (column - column.mean()) / column.std()
    skewness = (y**3).mean()
    assert skewness == pytest.approx(2 / 3**0.5)  # (1 - 2p) / sqrt(p (1 - p)) at p = 1/4
    assert y**2 - skewness * y - 1 == pytest.approx(np.zeros(4))
    assert levels(skewness) == pytest.approx((-(3**-0.5), 3**0.5))
    assert levels(0) == (-1, 1)


def test_a_lloyd_step_cuts_at_the_midpoint_and_fits_the_bits():
    """By hand: y = (-1, -1, 1, 1) along the first axis; the bits are its upper half, their fit is half of it."""
    points = np.array([[-1.0, 1], [-1, -1], [1, 1], [1, -1]])
    fitted, explained = lloyd(points, np.array([[2.0], [0.2]]))
    assert fitted == pytest.approx(np.array([[0.5], [0.0]])) and explained == pytest.approx([1.0])


def test_a_column_without_spread_has_no_fit():
    points = np.array([[1.0], [1], [1]])
    assert lloyd(points, np.array([[1.0]]))[1].tolist() == [0.0]


@pytest.mark.parametrize(("rule", "share"), [*zip(RULES, (0.05, 0.2, 0.5), strict=True)])
def test_each_rule_leads_to_columns_of_its_frequency(rule, share):
    columns, bits = table(3000, 30, shares=(share,))
    points = whitened(columns)
    truth = unit(points.T @ (bits[0] - share)[:, None])[:, 0]
    rng = np.random.default_rng(0)
    aside = rng.standard_normal((30, 40))
    aside = unit(aside - np.outer(truth, truth @ aside))
    starts = (0.45 * truth[:, None] + (1 - 0.45**2) ** 0.5 * aside).astype(np.float32)
    ends, explained = polish(points.astype(np.float32), climb(points.astype(np.float32), starts, rule))
    assert np.abs(truth @ ends).max() > 0.999 and explained.max() == pytest.approx(1, abs=1e-4)


def test_only_exact_columns_are_written_down():
    columns, bits = table(500, 8, shares=(0.3, 0.5))
    columns[7, 1] = 0.5  # one row of a two-valued column has a third value
    catalogue = Catalogue(whitened(columns))
    catalogue.offer(np.random.default_rng(0).standard_normal((8, 200)), steps=20)
    assert exact(catalogue.columns, bits[:1]) == 1 and len(catalogue) == catalogue.rank == 1
    assert not catalogue.test(np.zeros(500, bool)) and not catalogue.test(bits[1])
    assert catalogue.test(~bits[0]) and len(catalogue) == 1, "a complement is the same column"
    assert catalogue.complement().T @ catalogue.directions == pytest.approx(np.zeros((7, 1)))


def test_levels_of_a_group_follow_from_nested_sums():
    level = np.random.default_rng(0).integers(0, 4, 400)
    one_hot = (level[:, None] == np.arange(4)).astype(float)
    catalogue = Catalogue(whitened(one_hot))
    for member in ((0,), (0, 1), (0, 1, 2)):
        assert catalogue.test(np.isin(level, member))
    separate(catalogue)
    assert exact(catalogue.columns, one_hot.T > 0.5) == 4 and catalogue.rank == 3


def test_messages_in_float32_keep_true_columns_far_below_the_limit():
    columns, bits = table(2000, 12)
    catalogue = Catalogue(whitened(sent(columns)))
    assert all(catalogue.test(b) for b in bits) and max(catalogue.residuals) < 1e-9
