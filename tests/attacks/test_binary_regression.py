from dataclasses import replace

import pytest
import torch

from cutlayer.attack import Form
from cutlayer.attacks import BinaryRegression
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.view import Hints
from tests.helpers.linear_view import ROWS, bits, columns_found, linear_view
from tests.helpers.toy import FEATURE, OTHER, rng


def accuracy(attack, view, truth):
    guess = attack.run(view, rng())
    return float((guess.values[:, 0] == (truth[guess.rows] > 0.5)).float().mean())


def test_noise_leaves_a_column():
    view, features = linear_view(std=0.1)
    for basis in ("columns", "svd"):
        attack = BinaryRegression(basis=basis)
        assert max(accuracy(attack, view, features[FEATURE][:, j]) for j in (0, 1)) > 0.97
        assert attack.run(view, rng()).values.shape == (ROWS, 1)


def test_without_noise_several_distinct_columns_are_kept():
    view, features = linear_view()
    wanted = {bits(features[FEATURE][:, j]) for j in (0, 1)}
    assert columns_found(BinaryRegression(keep=2), view) == wanted
    assert wanted < columns_found(BinaryRegression(keep=4), view)


@pytest.mark.parametrize("visible", ["sum", "all"])
def test_sums_are_read_too(visible):
    view, features = linear_view()
    columns = {bits(features[FEATURE][:, 0]), bits(features[FEATURE][:, 1]), bits(features[OTHER][:, 0])}
    assert columns <= columns_found(BinaryRegression(visible=visible, keep=4, repeats=5), view)


def test_the_literal_rule_returns_a_single_one_under_noise():
    guess = BinaryRegression(select="literal").run(linear_view(std=0.3)[0], rng())
    assert guess.form is Form.COLUMNS and guess.values.sum() == 1 and guess.values[0, 0]


def test_its_draws_come_from_the_generator():
    view, _ = linear_view(std=1.0)
    first, again = (BinaryRegression(repeats=1).run(view, rng(3)).values for _ in range(2))
    assert torch.equal(first, again)
    assert any(not torch.equal(first, BinaryRegression(repeats=1).run(view, rng(s)).values) for s in range(5))


def test_where_it_does_not_apply():
    view, _ = linear_view()
    wide = replace(view, hints=Hints(shapes={FEATURE: (56,)}))
    with pytest.raises(Inapplicable, match=r"2\^57 candidates; use binary-search"):
        BinaryRegression().run(wide, rng())
    with pytest.raises(Inapplicable, match="rank=13 directions"):
        BinaryRegression(rank=13).run(view, rng())


@pytest.mark.parametrize(
    "settings",
    [{"basis": "rows"}, {"select": "best"}, {"repeats": 0}, {"keep": 0}, {"rank": 0}, {"visible": "none"}],
    ids=str,
)
def test_what_it_refuses(settings):
    with pytest.raises(ConfigError):
        BinaryRegression(**settings)
