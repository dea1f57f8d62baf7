"""Gradient inversion: rows out of gradients, on models where it must succeed and under defences where it must not."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer.attacks import GradientInversion
from cutlayer.auditing import attack_run
from cutlayer.errors import ConfigError
from cutlayer.horizontal import federate
from cutlayer.models import named

SINGLE = cl.Recipe(batch_size=1, optimiser=cl.Optimiser.SGD, lr=0.01)


def smooth(features, width):
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.Sigmoid())


def rest(inputs, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 32), nn.Sigmoid(), nn.Linear(32, outputs))


def digits(**options):
    task = cl.data.digits(parties=1, label_party="server")
    given = {"clients": 2, "exchange": "gradients", "rounds": 2, "recipe": SINGLE, "keep": "all"}
    return federate(task, bottoms=smooth, top=rest, **given | options)


@pytest.fixture(scope="module")
def undefended():
    return digits()


@pytest.mark.parametrize("method", ["dlg", "cosine"])
def test_single_pictures_come_back_from_their_gradients(undefended, method):
    (found,) = attack_run(undefended, [GradientInversion(method=method, messages=1, steps=300, restarts=1)])
    assert found.value < 0.01 < found.baseline + 0.05, found
    assert found.victim == "client0" and found.attacker == "server"


def test_a_batch_comes_back_in_any_order(undefended):
    run = digits(recipe=cl.Recipe(batch_size=2, optimiser=cl.Optimiser.SGD, lr=0.01))
    (found,) = attack_run(run, [GradientInversion(method="cosine", messages=1, steps=800, restarts=2)])
    assert found.rows == 2 and found.value < 0.02, found


def test_passports_mislead_it_and_so_does_noise(undefended):
    attack = GradientInversion(method="cosine", messages=1, steps=200, restarts=1)
    passport = cl.defences.Passport(mean_range=10.0, variance=1.0, where="bottom")
    hidden = digits(method="private-bottom", defences=[passport])
    noise = digits(defences=[cl.defences.GaussianNoise(std=1.0, on="update")])
    plain, *others = (attack_run(run, [attack])[0].value for run in (undefended, hidden, noise))
    assert plain < 1e-4 and min(others) > 0.01 and max(others) > 0.1  # guessed passports may come close


def test_without_the_bottom_it_sees_less(undefended):
    run = digits(method="private-bottom")
    known, guessed = (
        attack_run(run, [GradientInversion(method="cosine", knows=knows, messages=1, steps=300, restarts=1)])[0]
        for knows in ("bottom", "form")
    )
    assert known.value < 0.01 < guessed.value
    assert "form" in guessed.granted


def test_it_needs_gradients_and_shared_weights():
    averaged = digits(exchange="weights", recipe=cl.Recipe(batch_size=64, optimiser=cl.Optimiser.SGD, lr=0.01))
    (found,) = attack_run(averaged, [GradientInversion()])
    assert found.status == "does not apply" and "gradients-only" in found.reason
    vertical = cl.train(cl.data.digits(), epochs=1)
    (found,) = attack_run(vertical, [GradientInversion()])
    assert found.reason == "horizontal-only"
    (found,) = attack_run(averaged, [cl.attacks.NormScore()])
    assert found.reason == "vertical-only"


def test_the_label_of_a_single_row_is_read_off_the_last_bias(undefended):
    from cutlayer.attacks.gradient_inversion import _label
    from cutlayer.message import Kind

    view = undefended.view("client0")
    for channel in view.channels:
        if channel.kind is Kind.UPDATE:
            (first, *_) = channel.messages()
    given = next(c for c in view.channels if c.kind is Kind.WEIGHTS and c.receiver == "client0")
    hinted = replace(view, victim="client0")
    model, shared = GradientInversion()._model(hinted, next(given.messages()).payload)
    assert _label(model, shared, first.payload) == int(undefended.task.labels[first.batch.rows])


@pytest.mark.parametrize(
    "settings", [{"method": "sgd"}, {"knows": "all"}, {"steps": 0}, {"restarts": 0}, {"lr": 0.0}, {"tv": -1.0}]
)
def test_wrong_settings_are_named(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        GradientInversion(**settings)


def test_the_papers_lenet_is_cut_after_its_first_convolution():
    pictures = torch.rand(2, 1, 28, 28)
    features = cl.data.task.Features(pictures)
    bottom = named.bottom("first-layer")(features, 16)
    top = named.top("lenet-rest")(8 * 12 * 12, 10)
    assert top(bottom(pictures)).shape == (2, 10) and bottom.out_shape == (8, 12, 12)
    with pytest.raises(ConfigError, match="square maps"):
        named.top("lenet-rest")(8 * 12 * 11, 10)
