"""Sum differences: sums by hand, of which the exact answer is known; then every cut that opens something again."""

from dataclasses import replace

import pytest
import torch

import cutlayer as cl
from cutlayer.attacks import SumDifferences
from cutlayer.attacks.sum_differences import affine, epochs_of, own_columns
from cutlayer.auditing.attacking import attack_run
from cutlayer.cuts.encrypted_layer import EncryptedLayer
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.models import named
from cutlayer.models.mlp import MLP
from cutlayer.recipe import Recipe
from cutlayer.transcript import Keep, Policy, Transcript
from cutlayer.view import Hints, Known, Manifest, Own, view_of
from tests.helpers.random_task import random_task
from tests.helpers.toy import FEATURE, LABEL, ROSTER, rng, world

ROWS, OWN, THEIRS, WIDTH, EPOCHS = 300, 3, 5, 6, 3


def sums_view(told=60, noise=0.0, masked=True, epochs=EPOCHS):
    """Sums z_t + x_a W_mask of several epochs, by hand; the victim's rows are returned beside the view."""
    own, theirs = (torch.randn(ROWS, columns, generator=rng(columns)) for columns in (OWN, THEIRS))
    mask = 10.0 * masked * torch.randn(OWN, WIDTH, generator=rng(1))
    transcript = Transcript(Keep(Policy.ALL))
    for epoch in range(epochs):
        transcript.begin_epoch(epoch, epoch == epochs - 1)
        weights = torch.randn(THEIRS, WIDTH, generator=rng(10 + epoch))
        rows = torch.randperm(ROWS, generator=rng(20 + epoch))
        sums = (theirs @ weights + own @ mask)[rows] + noise * torch.randn(ROWS, WIDTH, generator=rng(30 + epoch))
        for step, part in enumerate(torch.arange(ROWS).split(100)):
            batch = Batch(3 * epoch + step, Phase.TRAIN, rows[part])
            transcript.record(Message(batch, LABEL, LABEL, Kind.SUM, sums[part]))
    train = torch.arange(ROWS)
    manifest = Manifest("toy", ROSTER, 2, train, train[:0], Recipe(batch_size=100), world().manifest.cut)
    view = view_of(transcript, frozenset({LABEL}), manifest, {LABEL: Own(own, None)})
    hints = Hints(features={FEATURE: Known(train[:told], theirs[:told])}, shapes={FEATURE: (THEIRS,)})
    return replace(view, hints=hints, victim=FEATURE), theirs


def error_of(guess, truth):
    return float((guess.values - truth[guess.rows]).pow(2).mean() / truth.pow(2).mean())


@pytest.mark.parametrize("masked", [True, False])
def test_differences_alone_give_the_rows_exactly_whatever_the_mask(masked):
    view, truth = sums_view(masked=masked)
    guess = SumDifferences(reads="differences").run(view, rng())
    assert guess.rows.tolist() == list(range(ROWS)) and error_of(guess, truth) < 1e-8


def test_differences_hold_no_mask():
    """The claim itself: between two epochs sums change by x_p (W' - W)."""
    view, truth = sums_view()
    _, sums = epochs_of(view.channel(Kind.SUM, Phase.TRAIN), torch.arange(ROWS))
    weights = [torch.randn(THEIRS, WIDTH, generator=rng(10 + epoch)) for epoch in range(EPOCHS)]
    torch.testing.assert_close(sums.diff(dim=0)[0].float(), truth @ (weights[1] - weights[0]), atol=1e-4, rtol=0)


def test_one_epoch_is_enough_where_sums_are_read_beside_own_columns():
    view, truth = sums_view(epochs=1)
    assert error_of(SumDifferences().run(view, rng()), truth) < 1e-8
    with pytest.raises(Inapplicable, match="needs two epochs"):
        SumDifferences(reads="differences").run(view, rng())


def test_where_sums_are_noise_it_is_hardly_worse_than_own_columns():
    view, truth = sums_view(noise=1e4)
    assert 0.9 < error_of(SumDifferences().run(view, rng()), truth) < 1.15  # own columns say nothing here


def test_it_takes_five_rows_of_the_right_party():
    view, _ = sums_view(told=4)
    with pytest.raises(ConfigError, match="five known rows"):
        SumDifferences().run(view, rng())
    with pytest.raises(Inapplicable, match="dense-only"):
        SumDifferences().run(replace(view, hints=Hints()), rng())
    for settings in ({"pairs": 4}, {"knows": "all"}, {"reads": "sums"}):
        with pytest.raises(ConfigError):
            SumDifferences(**settings)


def test_what_a_linear_bottom_says_is_read_off_it():
    layer = MLP(4, [3])
    weights, bias = affine(layer, (2, 2))
    inputs = torch.randn(7, 2, 2, generator=rng(1))
    torch.testing.assert_close((inputs.flatten(1).double() @ weights + bias).float(), layer(inputs.flatten(1)))
    with pytest.raises(Inapplicable, match="linear bottoms only"):
        affine(MLP(4, [8, 3]), (4,))


def linear_run(cut, epochs=3, parties=2, **changes):
    """Linear bottoms, rows that are wide apart."""
    task = random_task("sum differences", 256, parties, 4, 1.0, own=True)
    return task, cl.train(
        task,
        cut=cut,
        bottoms=lambda features, width: MLP(features.values.shape[1], [width]),
        top=lambda inputs, outputs: MLP(inputs, [8, outputs], first_activation=True),
        width=8,
        recipe=Recipe(epochs=epochs, batch_size=32, lr=0.02),
        keep="all",
        **changes,
    )


CUTS = {"secure-sum": SecureSum(), "sum": cl.Sum(), "encrypted-layer": EncryptedLayer(width=8)}


@pytest.mark.parametrize("cut", CUTS)
def test_it_reads_what_every_cut_opens(cut):
    _, run = linear_run(CUTS[cut])
    (found,) = attack_run(run, [SumDifferences(pairs=60)])
    assert found.status == "done" and found.value < 0.01  # columns are normal: the mean has 1


def test_with_the_weights_it_needs_no_row():
    for cut in (SecureSum(), cl.Sum()):
        _, run = linear_run(cut)
        (found,) = attack_run(run, [SumDifferences(knows="weights")])
        assert found.status == "done" and found.value < 1e-3
    _, run = linear_run(SecureSum(), parties=3)  # of two partners, 8 columns behind 8 sums
    found = attack_run(run, [SumDifferences(knows="weights")])
    assert all(each.status == "done" and each.value < 1e-2 for each in found)


def test_weights_are_no_use_against_a_layer_that_nobody_holds():
    _, run = linear_run(CUTS["encrypted-layer"])
    (found,) = attack_run(run, [SumDifferences(knows="weights")])
    assert found.reason


def test_digits_as_in_the_review():
    """200 known rows, 6 epochs: squared error 0.0012 by differences, 4e-5 by sums; own columns have 0.062."""
    run = cl.train(
        cl.data.digits(),
        cut=SecureSum(),
        bottoms=named.bottom("linear"),
        top=named.top("relu-mlp"),
        width=64,
        epochs=6,
        keep="all",
    )
    by_differences, by_sums, by_weights = attack_run(
        run, [SumDifferences(reads="differences"), SumDifferences(), SumDifferences(knows="weights")]
    )
    assert by_differences.value < 0.004 and by_sums.value < 3e-4 and by_weights.value < 1e-5


def test_own_columns_may_be_none():
    view, _ = sums_view()
    assert own_columns(view, torch.arange(5)).shape == (5, OWN)
    alone = replace(view, own={LABEL: Own(None, None)})
    assert own_columns(alone, torch.arange(5)).shape == (5, 0)
