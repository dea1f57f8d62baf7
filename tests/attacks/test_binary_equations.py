from dataclasses import replace

import numpy as np
import pytest
import torch

from cutlayer.attacks import BinaryEquations
from cutlayer.attacks.tools.binary.visible import columns, messages, not_own, with_own
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.view import Hints
from tests.helpers.linear_view import ROWS, bits, columns_found, linear_view
from tests.helpers.toy import FEATURE, LABEL, OTHER, rng


def test_the_binary_columns_come_out_bit_for_bit():
    view, features = linear_view()
    assert columns_found(BinaryEquations(), view) == {bits(features[FEATURE][:, j]) for j in (0, 1)}
    other = replace(view, victim=OTHER)
    assert columns_found(BinaryEquations(), other) == {bits(features[OTHER][:, 0])}


def test_rows_are_those_of_training_then_of_the_test():
    view, _ = linear_view()
    assert BinaryEquations().run(view, rng()).rows.tolist() == [*range(40, ROWS), *range(40)]


def test_a_bias_is_covered():
    view, features = linear_view(bias=True)
    wanted = [features[FEATURE][:, j] > 0.5 for j in (0, 1)]
    rarer = {bits(x if x.float().mean() <= 0.5 else ~x) for x in wanted}
    assert columns_found(BinaryEquations(centred=True), view) == rarer
    assert columns_found(BinaryEquations(), view) == {bits(x) for x in wanted} | {bits(~x) for x in wanted}


@pytest.mark.parametrize("visible", ["sum", "all"])
def test_a_sum_gives_away_the_columns_of_all_but_the_attacker(visible):
    view, features = linear_view()
    wanted = {bits(features[FEATURE][:, 0]), bits(features[FEATURE][:, 1]), bits(features[OTHER][:, 0])}
    assert columns_found(BinaryEquations(visible=visible), view) == wanted


def test_what_is_read_of_the_view():
    view, features = linear_view()
    assert [columns(view, visible) for visible in ("each", "sum", "all")] == [4, 7, 10]
    rows, each, own = messages(view, "each")
    assert each.shape == (ROWS, 12) and own is None
    _, both, own = messages(view, "sum")
    _, other, _ = messages(replace(view, victim=OTHER), "each")
    assert own is None and both == pytest.approx(each + other, abs=1e-5)
    _, everything, own = messages(view, "all")
    held = view.own[LABEL].bottom(features[LABEL][rows]).detach().numpy()
    assert everything == pytest.approx(both + held, abs=1e-5) and own == pytest.approx(features[LABEL][rows].numpy())
    assert with_own(everything, own).shape == (ROWS, 15) and with_own(both, None) is both
    mine = features[LABEL][rows, 0].numpy() > 0.5
    theirs = features[OTHER][rows, 0].numpy() > 0.5
    kept = not_own(np.column_stack([mine, ~mine, theirs]), own)
    assert kept.T.tolist() == [theirs.tolist()]


def test_curved_messages_give_nothing_away():
    view, _ = linear_view(activation=torch.tanh)
    for attack in (BinaryEquations(), BinaryEquations(centred=True), BinaryEquations(rank=4)):
        assert attack.run(view, rng()).values.shape == (ROWS, 0)


def test_noise_breaks_the_equations():
    view, _ = linear_view(std=0.1)
    assert BinaryEquations().run(view, rng()).values.shape == (ROWS, 0)


def test_where_it_does_not_apply():
    view, _ = linear_view(widths=(40, 12))
    with pytest.raises(Inapplicable, match="sums need equal widths"):
        BinaryEquations(visible="sum").run(view, rng())
    with pytest.raises(Inapplicable, match=r"2\^33 candidates; use binary-search"):
        BinaryEquations(rank=33).run(linear_view(widths=(40, 12), std=0.1)[0], rng())
    with pytest.raises(Inapplicable, match="no columns of its own"):
        BinaryEquations(visible="all").run(linear_view(own=False)[0], rng())
    with pytest.raises(Inapplicable, match="rank zero"):
        BinaryEquations().run(linear_view(activation=torch.zeros_like)[0], rng())
    with pytest.raises(Inapplicable, match="dense-only"):
        BinaryEquations().run(replace(view, hints=Hints()), rng())


@pytest.mark.parametrize("settings", [{"tolerance": 0}, {"tolerance": 0.5}, {"rank": 0}, {"visible": "none"}], ids=str)
def test_what_it_refuses(settings):
    with pytest.raises(ConfigError):
        BinaryEquations(**settings)
