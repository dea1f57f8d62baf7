"""What a search for binary columns reads under a secure sum, and that the sum gives the columns away (attack-3)."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import cutlayer as cl
from cutlayer.attacks import BinaryEquations, BinarySearch, BinaryUnmask
from cutlayer.attacks.tools.binary.visible import columns, known_span, messages, with_own
from cutlayer.auditing.attacking import attack_run
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.data.task import Features, Goal, Task
from cutlayer.defences import GaussianNoise
from cutlayer.errors import Inapplicable, RunError
from cutlayer.message import Kind, Phase
from cutlayer.models import named
from cutlayer.rng import generator
from cutlayer.view import Hints
from tests.helpers.binary_tables import sent, table

ROWS, TEST = 400, 50
COLUMNS = {"bank": (4, 1), "shop": (5, 2), "tele": (4, 1)}  # columns, of these two-valued
NAMES = tuple(COLUMNS)


def make_task(parties: int, own: bool = True) -> Task:
    """Rows of up to three parties; the first holds the labels, and columns if `own`."""
    rng, features = generator(1, "seen"), {}
    for name in NAMES[: parties + (not own)]:
        count, binary = COLUMNS[name]
        values = torch.rand(ROWS, count, generator=rng)
        values[:, :binary] = (values[:, :binary] > 0.4).float()
        features[name] = Features(values)
    labels = (sum(f.values.sum(1) for f in features.values()) > 0.5 * sum(COLUMNS[n][0] for n in features)).long()
    held = {name: f for name, f in features.items() if own or name != NAMES[0]}
    rows = torch.arange(ROWS)
    return Task("toy", held, labels, NAMES[0], Goal.BINARY, ("no", "yes"), rows[TEST:], rows[:TEST])


def trained(task: Task, bottom: str = "linear", width: int = 8, defences=()) -> cl.Run:
    recipe = cl.Recipe(epochs=2, batch_size=50, lr=0.05)
    models = {"bottoms": named.bottom(bottom), "top": named.top("relu-mlp:hidden=8"), "width": width}
    return cl.train(task, cut=SecureSum(), recipe=recipe, keep="none", defences=defences, **models)


def all_rows(run: cl.Run, victim: str = "shop") -> cl.View:
    task = run.task
    view = run.view(task.label_party, predict=torch.cat([task.train, task.test]))
    shapes = {name: tuple(task.features[name].values.shape[1:]) for name in task.feature_parties}
    return replace(view, hints=Hints(shapes=shapes), victim=victim)


@pytest.mark.parametrize("parties", [2, 3])
def test_opened_sums_give_away_every_binary_column_exactly(parties):
    run = trained(make_task(parties), width=12)
    attacks = [BinarySearch(), BinaryEquations(), BinaryEquations(visible="sum"), BinaryUnmask(starts=30)]
    findings = attack_run(run, attacks)
    assert len(findings) == 4 * (parties - 1) and {finding.status for finding in findings} == {"done"}
    others = sum(COLUMNS[name][1] for name in NAMES[1:parties])
    for finding in findings:
        assert finding.value == 1.0 > finding.baseline
        assert finding.detail.startswith("{0} of {0} two-valued columns exact".format(COLUMNS[finding.victim][1]))
        claimed = f"{others} claimed" in finding.detail  # what is our own is not a finding
        assert claimed or finding.attack.startswith("binary-unmask")


def test_what_is_read_is_the_sum_and_what_was_put_into_it():
    run = trained(make_task(3))
    view = all_rows(run)
    held = view.own["bank"].features
    opened, sums, _ = view.channel(Kind.SUM, Phase.PREDICT).read()
    for visible in ("each", "sum", "all"):
        rows, matrix, own = messages(view, visible)
        assert rows.tolist() == [*range(TEST, ROWS), *range(TEST)]
        assert np.array_equal(matrix, sums[opened.argsort()][rows].numpy().astype(np.float64))
        assert own == pytest.approx(held[rows].numpy(), abs=2.0**-17) and np.array_equal(own * 2**16, own * 2**16 // 1)
        assert columns(view, visible) == 4 + 5 + 4


def test_own_columns_are_appended_only_where_the_sum_is_too_narrow_to_span_them():
    matrix, own = np.ones((6, 4)), np.ones((6, 2))
    assert with_own(matrix, own, 3) is matrix
    assert with_own(matrix, own, 4).shape == with_own(matrix, own).shape == (6, 6)


def test_a_sum_no_wider_than_the_victim_needs_still_gives_all():
    """Its weakest direction is as weak as the rounding of what the attacker put in, which it knows too."""
    (finding,) = attack_run(trained(make_task(2), width=5), [BinarySearch()])
    assert finding.value == 1.0


@pytest.mark.parametrize("centred", [True, False])
def test_the_rank_is_that_of_the_columns_behind_whatever_their_size(centred):
    """Large numbers make a cliff of their own; sums of columns add nothing; noise is cut off."""
    view = all_rows(trained(make_task(2)))
    behind = columns(view, "each")
    values, _ = table(600, behind, shares=(0.3, 0.5))

    def rank(matrix):
        return known_span(view, "each", sent(matrix).astype(float), centred=centred, rank=None).rank - (not centred)

    large = values * np.where(np.arange(behind) < 2, 1, 1e4)
    summed = np.column_stack([values[:, :-1], values[:, 0] + values[:, 3]])
    assert rank(values) == behind and rank(summed) == behind - 1
    assert rank(large) == behind - (not centred)  # the weakest is given up for the constant
    noisy = sent(values, noise=0.1).astype(float)
    assert known_span(view, "each", noisy, centred=centred, rank=None).rank == behind
    assert known_span(view, "each", noisy, centred=centred, rank=3).rank == 3


def test_noise_in_the_sum_is_still_seen_as_noise():
    """With columns beside it that carry none, it would pass for an exact sum without two-valued columns."""
    run = trained(make_task(2), width=30, defences=[GaussianNoise(std=0.05)])
    (finding,) = attack_run(run, [BinarySearch(seconds=20)])
    assert finding.value > 0.95


def test_nothing_of_the_own_bottom_is_changed_or_drawn():
    view, state = all_rows(trained(make_task(2))), torch.random.get_rng_state()
    bottom = view.own["bank"].bottom
    bottom.entered = None
    messages(view, "each")
    assert bottom.entered is None and torch.equal(state, torch.random.get_rng_state())


def test_a_deeper_bottom_of_the_attacker_puts_in_what_enters_its_last_layer():
    """Its hidden layer is known to it, and the others' layers are linear: nothing is gained."""
    task = make_task(2)
    linear, deep = named.bottom("linear"), named.bottom("mlp:hidden=6")
    models = {"top": named.top("relu-mlp:hidden=8"), "width": 12}
    recipe = cl.Recipe(epochs=1, batch_size=50, lr=0.05)

    def bottoms(features, width):
        return (deep if features.values.shape[1] == COLUMNS["bank"][0] else linear)(features, width)

    run = cl.train(task, bottoms=bottoms, cut=SecureSum(scheme="none"), recipe=recipe, keep="none", **models)
    view = all_rows(run)
    rows, _, own = messages(view, "each")
    layers = run.session.label_party.bottom.bottom.layers
    with torch.no_grad():
        hidden = layers[:-1](task.features["bank"].values[rows])
    assert own == pytest.approx(hidden.numpy(), abs=2.0**-15) and columns(view, "each") == 6 + 5
    (finding,) = attack_run(run, [BinarySearch()])
    assert finding.value == 1.0 and finding.detail.startswith("2 of 2")


def test_a_label_party_without_columns_puts_nothing_in():
    run = trained(make_task(2, own=False), width=12)
    view = all_rows(run)
    _, matrix, own = messages(view, "each")
    assert own is None and matrix.shape == (ROWS, 12) and columns(view, "each") == 5 + 4
    for finding in attack_run(run, [BinarySearch(), BinaryEquations()]):
        assert finding.value == 1.0


def test_where_there_is_nothing_to_read():
    view = all_rows(trained(make_task(2)))
    none = torch.tensor([ROWS + 1])
    with pytest.raises(RunError, match="opened sums"):
        messages(replace(view, manifest=replace(view.manifest, train=none, test=none)), "each")
    few = torch.arange(4)
    with pytest.raises(Inapplicable, match="than rows"):
        messages(replace(view, manifest=replace(view.manifest, train=few, test=few[:0])), "each")
    with pytest.raises(Inapplicable, match="dense-only"):
        columns(replace(view, hints=Hints()), "each")
