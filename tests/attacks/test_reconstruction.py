"""Reconstruction of labels: what practice on shadow rows gives, and what it does not."""

import pytest

import cutlayer as cl
from cutlayer.attack import Form
from cutlayer.attacks import Reconstruction
from cutlayer.auditing.attacking import attack_run
from cutlayer.errors import ConfigError
from tests.helpers.toy import rng, world


def test_it_reads_labels_that_own_columns_do_not_tell():
    toy, attack = world(3), Reconstruction(shadow=80, runs=4, rounds=8)
    guess = attack.run(toy.view_for(attack), rng())
    assert guess.form is Form.CLASSES and sorted(guess.rows.tolist()) == toy.manifest.train.tolist()
    assert (toy.labels[guess.rows] == guess.values).double().mean() > 0.8


def test_shuffled_labels_stay_secret():
    toy, attack = world(3, sealed=True), Reconstruction(shadow=80, runs=2, rounds=3)
    guess = attack.run(toy.view_for(attack), rng())
    assert (toy.labels[guess.rows] == guess.values).double().mean() == pytest.approx(1 / 3, abs=0.1)


def test_what_it_asks_for():
    assert str(Reconstruction().asks) == "1000 complete rows outside of training"
    assert "all models started from" in str(Reconstruction(start="shared").asks)


def test_without_shadow_data_it_says_so():
    toy = world(3)
    with pytest.raises(ConfigError, match="shadow data for reconstruction"):
        Reconstruction().run(toy.view(toy.manifest.roster.feature_parties[0]), rng())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shadow": 1}, "shadow=1"),
        ({"runs": 0}, "runs=0"),
        ({"epochs": -1}, "epochs=-1"),
        ({"start": "mine"}, "own, shared"),
        ({"parameters": "some"}, "all, difference, none"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ConfigError, match=message):
        Reconstruction(**settings)


@pytest.fixture(scope="module")
def run():
    recipe = cl.Recipe(epochs=1, batch_size=32)
    task = cl.data.load("digits")
    return cl.train(task, defences=[cl.defences.Hash(bits=8)], recipe=recipe, keep="all")


def test_naive_shadows_do_not_fit_a_defence_that_changes_widths(run):
    naive = Reconstruction(runs=1, rounds=1, adaptive=False)
    (finding,) = attack_run(run, [naive])
    assert (finding.status, finding.reason.split(":")[0]) == (
        "does not apply",
        "the defence changes the width of messages",
    )


def test_fewer_shadow_rows_than_asked_for_are_printed(run):
    (finding,) = attack_run(run, [Reconstruction(shadow=10_000, runs=1, rounds=1)])
    assert finding.granted == f"{len(run.task.test)} complete rows outside of training"
    assert finding.baseline > 0.5  # of learners on own columns, taught the same shadow rows


def test_the_run_must_have_kept_its_first_epoch(run):
    late = cl.train(run.task, recipe=cl.Recipe(epochs=2, batch_size=256), keep="last")
    (finding,) = attack_run(late, [Reconstruction(runs=1)])
    assert "first epoch" in finding.reason
