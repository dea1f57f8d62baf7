from dataclasses import replace

import pytest
import torch
from torch import nn

from cutlayer.attack import Form
from cutlayer.attacks import PGD
from cutlayer.auditing.attacking import attack_run
from cutlayer.cut import Roster
from cutlayer.cuts.concat import Concat
from cutlayer.cuts.sum import Sum
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.recipe import Recipe
from cutlayer.view import Hints, Known, Manifest, Own, View
from tests.helpers.toy import FEATURE, LABEL, NEUTRAL, OTHER, digits_run, rng, world


def linear(weight):
    top = nn.Linear(len(weight[0]), len(weight), bias=False)
    with torch.no_grad():
        top.weight.copy_(torch.tensor(weight))
    return top


def game_view(mine, theirs, top, cut=None, roster=NEUTRAL):
    """The feature party's white-box view of test rows 10, 11, ...; hints come in another order."""
    rows = torch.arange(10, 10 + len(mine))
    manifest = Manifest("toy", roster, 2, rows[:0], rows, Recipe(batch_size=4), cut or Concat())
    order = torch.arange(len(rows) - 1, -1, -1)
    sent = {FEATURE: Known(rows, torch.tensor(mine)), OTHER: Known(rows[order], torch.tensor(theirs)[order])}
    hints = Hints(top=top, embeddings=sent)
    return View(frozenset({FEATURE}), manifest, (), {FEATURE: Own(None, None)}, hints, LABEL)


TOP = linear([[1.0, -2.0, 1.0], [0.0, 0.0, 0.0]])  # class 0 wants the first number up and the second down


def test_steps_and_bound_by_hand():
    """Each step moves (+0.25, -0.25); three steps reach 0.75, the bound of 0.6 stops there."""
    view = game_view([[-3.0, 1.0], [0.5, 0.5]], [[0.0], [-9.0]], TOP)
    for iterations, moved in ((1, 0.25), (2, 0.5), (3, 0.6), (9, 0.6)):
        guess = PGD(step=0.25, bound=0.6, iterations=iterations).run(view, rng())
        assert guess.form is Form.SUBMISSIONS and guess.wanted == 0 and guess.rows.tolist() == [10, 11]
        expected = torch.tensor([[-3 + moved, 1 - moved], [0.5 + moved, 0.5 - moved]])
        assert torch.allclose(guess.values, expected)


def test_the_scale_of_embeddings_multiplies_step_and_bound():
    view = game_view([[-3.0, 1.0], [0.0, 8.0]], [[0.0], [-9.0]], TOP)  # the mean size is 3
    once = PGD(step=0.25, bound=0.6, iterations=1, scale="embeddings").run(view, rng())
    assert torch.allclose(once.values, torch.tensor([[-2.25, 0.25], [0.75, 7.25]]))
    often = PGD(step=0.25, bound=0.6, scale="embeddings").run(view, rng())
    assert torch.allclose(often.values, torch.tensor([[-1.2, -0.8], [1.8, 6.2]]))


@pytest.mark.parametrize(
    ("step", "bound", "after"),
    [
        (0.1, 1.0, [[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]),  # nothing flips
        (1.0, 1.0, [[1.0, 1.0], [1.0, 1.0], [1.0, -1.0]]),  # -1 + 1 = 0 becomes +1; +1 - 1 = 0 as well
        (1.0, 2.0, [[1.0, 1.0], [1.0, 1.0], [1.0, -1.0]]),
        (1.5, 2.0, [[1.0, -1.0], [1.0, -1.0], [1.0, -1.0]]),
        (1.5, 0.9, [[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]),
    ],
)
def test_codes_are_put_through_sign_after_every_step(step, bound, after):
    view = game_view([[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]], [[-1.0], [-1.0], [-2.0]], TOP)
    guess = PGD(step=step, bound=bound).run(view, rng())
    assert guess.values.tolist() == after


def test_rows_are_those_not_predicted_as_wanted():
    view = game_view([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [-1.5, 0.0], [-2.0, 0.0]], [[0.0]] * 5, TOP)
    assert PGD(rows=2).run(view, rng()).rows.tolist() == [11, 13]
    assert PGD(wanted=1).run(view, rng()).rows.tolist() == [10, 12]
    with pytest.raises(Inapplicable, match="predicted as wanted"):
        PGD().run(game_view([[1.0, 0.0]], [[0.0]], TOP), rng())


def test_the_joint_input_follows_the_roster_and_the_cut():
    turned = linear([[1.0, 1.0, -2.0], [0.0, 0.0, 0.0]])  # the other party's number comes first
    view = game_view([[-3.0, 1.0]], [[0.0]], turned, roster=Roster(LABEL, (OTHER, FEATURE)))
    assert PGD(step=0.5, iterations=1).run(view, rng()).values.tolist() == [[-2.5, 0.5]]
    added = game_view([[-3.0, 1.0]], [[0.0, 1.0]], linear([[1.0, -2.0], [0.0, 0.0]]), Sum())
    assert PGD(step=0.5, iterations=1).run(added, rng()).values.tolist() == [[-2.5, 0.5]]


def test_a_seen_code_is_chosen_by_its_probability():
    """Row 10 sent what suits class 0 best; honestly it is predicted so, the others are not."""
    mine = [[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]
    view = game_view(mine, [[0.0], [-1.0], [-9.0]], TOP)
    guess = PGD(choose="seen-codes").run(view, rng())
    assert guess.rows.tolist() == [11, 12] and guess.values.tolist() == [[1.0, -1.0], [1.0, -1.0]]
    assert PGD(choose="seen-codes", wanted=1).run(view, rng()).values.tolist() == [[-1.0, 1.0]]


def test_nothing_is_drawn_and_the_top_stays():
    toy = world(3, hashed=True)
    view = toy.view_for(PGD())
    before = [p.clone() for p in view.hints.top.parameters()]
    state = rng(3).get_state()
    guess = PGD(step=1.0).run(view, rng(3))
    assert torch.equal(rng(3).get_state(), state) and guess.values.abs().eq(1).all()
    assert all(torch.equal(*pair) for pair in zip(before, view.hints.top.parameters(), strict=True))
    assert all(p.grad is None for p in view.hints.top.parameters())


def test_codes_stop_small_steps_and_not_a_party_that_replays_its_codes():
    attacks = {
        "small": PGD(),
        "large": PGD(step=1.0),
        "seen": PGD(choose="seen-codes"),
        "scaled": PGD(scale="embeddings"),
    }
    results = {
        hashed: dict(zip(attacks, attack_run(digits_run(hashed), attacks.values(), by="party2"), strict=True))
        for hashed in (False, True)
    }
    for findings in results.values():
        assert all(f.metric == "success" and f.baseline == 0 and f.rows == 100 for f in findings.values())
    assert results[True]["small"].value == 0
    assert results[True]["seen"].value > max(0.5, results[True]["large"].value)
    assert results[False]["scaled"].value > 0.3 and results[False]["scaled"].value >= results[False]["small"].value


def test_what_it_refuses():
    assert PGD().applies(world(0).manifest) == "classes-only"
    assert PGD().applies(world(3).manifest) == "label party holds columns"
    assert PGD(wanted=3).applies(world(3, hashed=True).manifest) == "no class 3"
    assert PGD().applies(world(3, hashed=True).manifest) is None
    view = game_view([[-1.0, 0.0]], [[0.0]], TOP)
    with pytest.raises(ConfigError, match="hints"):
        PGD().run(replace(view, hints=Hints()), rng())
    alone = {FEATURE: view.hints.embeddings[FEATURE]}
    with pytest.raises(Inapplicable, match="no embeddings of tele"):
        PGD().run(replace(view, hints=Hints(top=TOP, embeddings=alone)), rng())
    for wrong in (
        {"wanted": -1},
        {"step": 0.0},
        {"bound": -1.0},
        {"iterations": 0},
        {"rows": 0},
        {"scale": "none"},
        {"choose": "any"},
    ):
        with pytest.raises(ConfigError):
            PGD(**wrong)
