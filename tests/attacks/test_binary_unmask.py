"""Binary unmask: its parts on numbers small enough to check, and real columns out of masquerade."""

from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from cutlayer.attacks import BinaryEquations, BinaryUnmask
from cutlayer.attacks.binary_unmask import distinct, left_open, pairs, planted, refitted, two_valued, whitened
from cutlayer.attacks.tools.binary.span import span_of
from cutlayer.auditing.attacking import attack_run
from cutlayer.defences import GaussianNoise, Masquerade
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.training import train_plan
from cutlayer.view import Hints
from tests.helpers.linear_view import bits, columns_found, linear_view
from tests.helpers.shop_task import make_task, plan
from tests.helpers.toy import FEATURE, rng


def generator(seed=0):
    return np.random.default_rng(seed)


def coin(rows, seed, share=0.5):
    return generator(seed).random((rows, 1)) < share


def test_a_planted_bit_is_fair_and_unknown_to_the_attacker():
    fair, rare = coin(4000, 1), coin(4000, 2, 0.3)
    known = coin(4000, 3)
    held = (2.0 * known - 1) + generator(4).normal(0, 3, (4000, 1))
    held = (held - held.mean()) / held.std()
    assert planted(np.column_stack([fair, rare, known]), held).tolist() == [True, False, False]


def test_what_is_left_without_a_planted_bit_is_what_was_there_before_it():
    columns = generator().normal(size=(3000, 3))
    fake = coin(3000, 5)
    messages = columns @ generator(1).normal(size=(3, 8)) + fake * generator(2).normal(size=8)
    points = whitened(span_of(messages, centred=True).basis, fake)
    assert points.shape == (3000, 3)
    assert np.allclose(points.T @ points / 3000, np.eye(3)) and np.abs(points.T @ (fake - fake.mean())).max() < 1e-6
    centred = columns - columns.mean(axis=0)
    missed = centred - points @ (points.T @ centred) / 3000
    assert (missed**2).sum() < 0.01 * (centred**2).sum()  # but for chance correlations of the bit


def test_halves_and_fit_alternate_towards_a_two_valued_column():
    """y = 3x - 2 with x of share 0.8 has levels 1/2 and -2 at unit variance: the cut is at half its skewness -3/2."""
    x = np.tile([1.0, 1, 1, 1, 0], 200)
    other = generator().normal(size=1000)
    other -= other.mean() + (x - 0.8) * ((x - 0.8) @ other) / ((x - 0.8) @ (x - 0.8))
    points = np.column_stack([(x - 0.8) / 0.4, other / other.std()])
    direction, explained = refitted(points, np.array([[1.0], [0.2]]))
    assert abs(direction[0, 0]) == pytest.approx(0.4) and abs(direction[1, 0]) < 1e-9  # its spread, and nothing else
    assert explained[0] == pytest.approx(1)
    assert left_open(points, x[:, None] > 0.5) == pytest.approx(0, abs=1e-9)
    assert any(
        np.array_equal(column, x > 0.5) or np.array_equal(~column, x > 0.5)
        for column in two_valued(points, 20, generator()).T
    )


def test_levels_of_a_design_come_in_pairs_whatever_the_rank():
    """All 2 x 3 x 5 combinations seen through two numbers: 30 points in a plane, and no direction is near the bit."""
    design = np.array([(a, b, c) for a in (0, 1) for b in range(3) for c in range(5)] * 4, dtype=float)
    seen = design @ generator(3).normal(size=(3, 2))
    paired, missing = pairs(seen, generator())
    assert missing.tolist() == [0] and paired.shape == (120, 1)
    assert np.array_equal(paired[:, 0], design[:, 0] == 1) or np.array_equal(paired[:, 0], design[:, 0] == 0)
    assert pairs(generator().normal(size=(200, 2)), generator())[0].shape == (200, 0)


def test_copies_and_complements_are_one_claim():
    first, second = coin(500, 1), coin(500, 2)
    claims = np.column_stack([second, first, ~first])
    assert distinct(claims, np.array([0.3, 0.1, 0.2]), first[:, :0], 5) == [1, 0]
    assert distinct(claims, np.array([0.3, 0.1, 0.2]), first, 5) == [0]
    assert distinct(claims, np.array([0.3, 0.1, 0.2]), first[:, :0], 1) == [1]


@pytest.mark.parametrize("fabricated", [1, 2])
def test_masquerade_is_undone(fabricated):
    run = train_plan(make_task(), plan(Masquerade(fabricated=fabricated), epochs=8))
    guesses = []
    attacks = [BinaryEquations(), BinaryUnmask(starts=100)]
    equations, unmask = attack_run(run, attacks, on_guess=lambda attack, guess, finding: guesses.append(guess))
    assert equations.value < 0.65 and unmask.value > 0.95
    last = guesses[1].values[guesses[1].rows.argsort(), -fabricated:].numpy()
    fake = run.session.parties["shop"].features[:, -fabricated:].numpy() == 1
    for column in last.T:
        assert any(np.array_equal(column, bits) or np.array_equal(~column, bits) for bits in fake.T)


def test_undefended_columns_come_first():
    task, guesses = make_task(), []
    run = train_plan(task, plan())
    (finding,) = attack_run(
        run, [BinaryUnmask(starts=50)], on_guess=lambda attack, guess, finding: guesses.append(guess)
    )
    assert finding.value == 1.0 and "2 of 2 two-valued columns exact" in finding.detail
    first = guesses[0].values[guesses[0].rows.argsort(), :2].float()
    truth = task.features["shop"].values[:, :2]
    agree = (2 * first - 1).T @ (2 * truth - 1) / len(truth)
    assert (agree.abs() == 1).sum() == 2


def test_columns_that_look_planted_are_still_claimed():
    """Nothing that this attacker holds tells these apart from fair coins: they come last."""
    view, features = linear_view()
    claimed = columns_found(BinaryUnmask(starts=50, keep=1), view)
    for j in (0, 1):
        column = features[FEATURE][:, j]
        assert claimed & {bits(column), bits(1 - column)}


def test_noise_and_a_hidden_layer_leave_the_columns():
    for view, features in (linear_view(std=0.3), linear_view(activation=nn.Tanh())):
        guess = BinaryUnmask(starts=100).run(view, rng())
        for j in (0, 1):
            right = (guess.values == (features[FEATURE][guess.rows, j, None] > 0.5)).double().mean(dim=0)
            assert max(float(right.max()), 1 - float(right.min())) > 0.9


def test_with_noise_on_top_of_masquerade_it_still_reads():
    run = train_plan(make_task(), plan(Masquerade(), GaussianNoise(std=0.05), epochs=8))
    (finding,) = attack_run(run, [BinaryUnmask(starts=100)])
    assert finding.value > 0.9


def test_where_it_does_not_apply():
    view, _ = linear_view()
    with pytest.raises(Inapplicable, match="dense-only"):
        BinaryUnmask().run(replace(view, hints=Hints()), rng())


@pytest.mark.parametrize("settings", [{"keep": 0}, {"starts": 0}], ids=str)
def test_what_it_refuses(settings):
    with pytest.raises(ConfigError):
        BinaryUnmask(**settings)
