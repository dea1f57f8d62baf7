from dataclasses import replace

import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer.attacks import Cafe
from cutlayer.attacks.cafe import inputs_of, peeled, taken_off
from cutlayer.auditing.attacking import attack_run
from cutlayer.auditing.secret import secret_of
from cutlayer.cuts import SecureSum
from cutlayer.errors import ConfigError, Inapplicable, RunError
from cutlayer.judge import grant
from cutlayer.rng import Stream
from cutlayer.view import Moment
from tests.helpers.toy import FEATURE, LABEL, rng, world


def make(*layers):
    with Stream(1, "bottom").scope():
        return nn.Sequential(*(layer() for layer in layers))


def moment_of(bottom, inputs, slopes):
    """A training step: what was sent, and the gradients of all parameters."""
    sent = bottom(inputs)
    parts = torch.autograd.grad(sent, list(bottom.parameters()), slopes)
    gradients = dict(zip((name for name, _ in bottom.named_parameters()), parts, strict=True))
    return Moment(torch.arange(len(inputs)), bottom, gradients), sent.detach()


def test_inputs_by_hand():
    slopes = torch.tensor([[1.0, 0.0], [1.0, 2.0]]).double()  # V
    inputs = torch.tensor([[3.0, 5.0, 0.0], [1.0, 0.0, 7.0]]).double()  # U
    gradient = torch.tensor([[4.0, 5.0, 7.0], [2.0, 0.0, 14.0]])  # V^T U
    assert torch.allclose(inputs_of(slopes, gradient), inputs)
    assert inputs_of(slopes[[0, 0]], gradient) is None  # two rows that pull alike
    assert inputs_of(torch.cat([slopes, slopes]), gradient) is None  # more rows than outputs
    assert inputs_of(slopes * 0, gradient) is None and inputs_of(slopes, None) is None


def test_short_gradients_do_not_pass_for_rounding():
    slopes = torch.tensor([[1.0, 0.0], [0.0, 1e-9]]).double()
    inputs = torch.tensor([[3.0], [4.0]]).double()
    assert torch.allclose(inputs_of(slopes, slopes.T @ inputs), inputs)


def test_layers_come_off_from_the_cut_inwards():
    dense = make(nn.Flatten, lambda: nn.Linear(6, 5), nn.ReLU, lambda: nn.Linear(5, 4))
    layers, whole = peeled(dense, (1, 2, 3))
    assert [name for name, _ in layers] == ["3", "2", "1"] and whole
    conv = make(lambda: nn.Conv2d(1, 2, 2), nn.ReLU, nn.Flatten, lambda: nn.Linear(4, 4))
    layers, whole = peeled(conv, (1, 2, 3))
    assert [name for name, _ in layers] == ["3"] and not whole
    assert peeled(make(lambda: nn.Linear(3, 4), lambda: nn.BatchNorm1d(4)), (3,)) == ([], False)


@pytest.mark.parametrize("count, place", [(4, "0"), (6, None)], ids=["exact", "too many"])
def test_three_layers_give_up_their_inputs(count, place):
    bottom = make(lambda: nn.Linear(7, 9), nn.ReLU, lambda: nn.Linear(9, 8), nn.ReLU, lambda: nn.Linear(8, 5))
    inputs, slopes = torch.randn(count, 7, generator=rng(1)), torch.randn(count, 5, generator=rng(2))
    moment, sent = moment_of(bottom, inputs, slopes)
    reading = taken_off(peeled(bottom, (7,))[0], moment, sent.double(), slopes.double())
    assert reading[0] == place
    assert torch.allclose(reading[1].float(), inputs if place else sent, atol=1e-3)


@pytest.fixture(scope="module")
def run():
    task = cl.data.digits(label_party=LABEL)
    return cl.train(task, epochs=1, recipe=cl.Recipe(batch_size=16), keep="ends")


def test_digits_come_back_exactly_from_small_batches(run):
    for finding in attack_run(run, [Cafe(batches=2)]):
        assert finding.value < 1e-6 < finding.baseline and finding.rows == 32
        assert finding.granted == "the victim's weights and their gradients in 2 training steps"


def test_a_step_is_as_it_was(run):
    """The victim's first weights, and the gradient that plain torch finds with its rows and what crossed."""
    view = run.view(LABEL)
    (moment,) = grant(cl.Asks(course=1), view, secret_of(run), 0).course["party1"]
    inputs = run.task.features["party1"].values[moment.rows]
    sent, back = (next(view.channel(k, peer="party1").messages()) for k in (cl.Kind.EMBEDDING, cl.Kind.GRADIENT))
    again, embedded = moment_of(moment.bottom, inputs, back.payload)
    assert torch.equal(embedded, sent.payload)
    assert all(torch.equal(again.gradients[name], slope) for name, slope in moment.gradients.items())


def test_large_batches_are_searched_by_their_gradients():
    task = cl.data.digits(label_party=LABEL)
    run = cl.train(task, epochs=1, recipe=cl.Recipe(batch_size=32), keep="ends")
    with_match, without = (attack_run(run, [Cafe(batches=1, steps=150, match=m)])[0].value for m in (1.0, 0.0))
    assert with_match < 0.5 * without


def test_pictures_are_searched_through_convolutions():
    bottom = make(lambda: nn.Conv2d(1, 4, 3, padding=1), nn.ReLU, nn.Flatten, lambda: nn.Linear(4 * 36, 8))
    inputs, slopes = torch.rand(4, 1, 6, 6, generator=rng(1)), torch.randn(4, 8, generator=rng(2))
    moment, sent = moment_of(bottom, inputs, slopes)
    for seed in range(3):  # where it ends depends on where it starts
        guess = Cafe(steps=200)._read(moment, (1, 6, 6), sent, slopes, rng(seed))
        assert (guess - inputs).pow(2).mean() < 0.25 * inputs.var()


def test_what_it_refuses():
    view = world().view_for(Cafe())
    with pytest.raises(ConfigError, match="training steps of 'shop'"):
        Cafe().run(world().view(LABEL, victim=FEATURE), rng())
    with pytest.raises(Inapplicable, match="plain cuts only"):
        Cafe().run(replace(view, manifest=replace(view.manifest, cut=SecureSum())), rng())
    late = {FEATURE: view.hints.course[FEATURE][1:]}
    with pytest.raises(RunError, match="first training steps"):
        Cafe().run(replace(view, hints=replace(view.hints, course=late)), rng())
    odd = {FEATURE: (replace(view.hints.course[FEATURE][0], bottom=nn.Embedding(9, 2)),)}
    with pytest.raises(Inapplicable, match="dense-only"):
        Cafe().run(replace(view, hints=replace(view.hints, course=odd)), rng())
    for wrong in ({"batches": 0}, {"steps": 0}, {"lr": 0}, {"tv": -1}, {"l2": -1}, {"match": -1}):
        with pytest.raises(ConfigError):
            Cafe(**wrong)


def test_a_run_that_forgot_its_first_epoch_is_not_attacked():
    run = cl.train(cl.data.digits(label_party=LABEL), epochs=2, keep="last")
    assert "--keep ends" in attack_run(run, [Cafe()])[0].reason
