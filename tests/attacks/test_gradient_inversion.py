"""Gradient inversion: rows out of gradients, on models where it must succeed and under defences where it must not."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import log_softmax

import cutlayer as cl
from cutlayer.attacks import GradientInversion, gradient_inversion
from cutlayer.attacks.gradient_inversion import Attempt, _chunks, _label
from cutlayer.attacks.tools.batched_gradients import Whole, gradients
from cutlayer.auditing.attacking import attack_run
from cutlayer.blocks.passport import PassportLayer
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.horizontal import federate
from cutlayer.horizontal.federation import Exchange, Method
from cutlayer.message import Kind
from cutlayer.models import named
from cutlayer.rng import generator

SINGLE = cl.Recipe(batch_size=1, optimiser=cl.Optimiser.SGD, lr=0.01)


def smooth(features, width):
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.Sigmoid())


def rest(inputs, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 32), nn.Sigmoid(), nn.Linear(32, outputs))


def digits(**options):
    task = cl.data.digits(parties=1, label_party="server")
    given = {"clients": 2, "exchange": Exchange.GRADIENTS, "rounds": 2, "recipe": SINGLE, "keep": "all"}
    return federate(task, bottoms=smooth, top=rest, **given | options)


@pytest.fixture(scope="module")
def undefended():
    return digits()


@pytest.mark.parametrize("method", ["dlg", "cosine"])
def test_single_pictures_come_back_from_their_gradients(undefended, method):
    (finding,) = attack_run(undefended, [GradientInversion(method=method, messages=1, steps=300, restarts=1)])
    assert finding.value < 0.01 < finding.baseline, finding
    assert finding.victim == "client0" and finding.attacker == "server"


def test_a_batch_comes_back_in_any_order():
    run = digits(recipe=cl.Recipe(batch_size=2, optimiser=cl.Optimiser.SGD, lr=0.01))
    (finding,) = attack_run(run, [GradientInversion(method="cosine", messages=1, steps=500, restarts=2)])
    assert finding.rows == 2 and finding.value < 0.02, finding


def test_passports_mislead_it_and_so_does_noise(undefended):
    attack = GradientInversion(method="cosine", messages=1, steps=200, restarts=1)
    passport = cl.defences.Passport(mean_range=10.0, variance=1.0, where="bottom")
    hidden = digits(method=Method.PRIVATE_BOTTOM, defences=[passport])
    noise = digits(defences=[cl.defences.GaussianNoise(std=1.0, on="update")])
    plain, guessed, noisy = (attack_run(run, [attack])[0].value for run in (undefended, hidden, noise))
    assert plain < 1e-4 and noisy > 0.1 and guessed > 0.01  # a guess may come close


def test_random_signs_do_not_mislead_it():
    """A single row has no other to be mixed with, and signs are searched for like the rest."""
    run = digits(defences=[cl.defences.Instahide(k=2)])
    (finding,) = attack_run(run, [GradientInversion(method="cosine", messages=1, steps=300, restarts=1)])
    assert finding.value < 0.001 < finding.baseline, finding


def test_every_start_guesses_other_means(monkeypatch):
    """Two draws from the same means differ far less than two guesses do."""
    run = digits(
        method=Method.PRIVATE_BOTTOM, defences=[cl.defences.Passport(mean_range=50.0, where="bottom")], rounds=1
    )
    starts = []

    def solve(self, model, names, problems, manifest):
        starts.extend(problems)
        return [problems[0].rows]

    monkeypatch.setattr(GradientInversion, "_solve", solve)
    attack_run(run, [GradientInversion(messages=1, restarts=6)])
    factors = torch.stack([start.factors[0] for start in starts]).detach()
    assert len(factors) == 6 and float(factors.std(dim=0).mean()) > 0.1 * float(factors.abs().mean())


def test_a_tenth_of_the_entries_is_enough(monkeypatch):
    """Entries that were held back are zeros, which would mislead an attacker that takes them for gradients."""
    run = digits(defences=[cl.defences.Sparsification(share=0.1, on="update")])
    attack = GradientInversion(method="cosine", messages=1, steps=300, restarts=1)
    knowing = attack_run(run, [attack])[0].value
    monkeypatch.setattr(gradient_inversion, "_some_kept", lambda manifest: False)
    assert knowing < 0.01 < 0.02 < attack_run(run, [attack])[0].value


def test_without_the_bottom_it_sees_less():
    run = digits(method=Method.PRIVATE_BOTTOM)
    known, guessed = (
        attack_run(run, [GradientInversion(method="cosine", knows=knows, messages=1, steps=300, restarts=1)])[0]
        for knows in ("bottom", "form")
    )
    assert known.value < 0.01 < guessed.value
    assert "form" in guessed.granted


def test_it_needs_gradients_and_shared_weights():
    averaged = digits(exchange=Exchange.WEIGHTS, recipe=cl.Recipe(batch_size=64, optimiser=cl.Optimiser.SGD, lr=0.01))
    (finding,) = attack_run(averaged, [GradientInversion()])
    assert finding.status == "does not apply" and "gradients-only" in finding.reason
    vertical = cl.train(cl.data.digits(), epochs=1)
    (finding,) = attack_run(vertical, [GradientInversion()])
    assert finding.reason == "horizontal-only"
    (finding,) = attack_run(averaged, [cl.attacks.NormScore()])
    assert finding.reason == "vertical-only"


def test_the_label_of_a_single_row_is_read_off_the_last_bias(undefended):
    view = undefended.view("client0")
    for channel in view.channels:
        if channel.kind is Kind.UPDATE:
            (first, *_) = channel.messages()
    given = next(c for c in view.channels if c.kind is Kind.WEIGHTS and c.receiver == "client0")
    hinted = replace(view, victim="client0")
    model, shared = GradientInversion()._model(hinted, next(given.messages()).payload)
    assert _label(model, shared, first.payload) == int(undefended.task.labels[first.batch.rows])


def one_by_one(model, names, weights, factors, rows, labels):
    """The gradients of one problem after the other."""
    for number in range(len(rows)):
        twin = copy.deepcopy(model)  # the graph of each needs its own weights to stay
        twin.load_state_dict({name: part[number] for name, part in weights.items()}, strict=False)
        twin.bottom[0].given = tuple(factors[number])
        loss = -(labels[number].softmax(dim=1) * log_softmax(twin(rows[number]), dim=1)).sum(dim=1).mean()
        grads = torch.autograd.grad(loss, [twin.get_parameter(name) for name in names], create_graph=True)
        yield torch.cat([part.flatten() for part in grads])


def test_gradients_of_many_problems_are_those_of_each():
    rng = generator(0)
    layer = PassportLayer(nn.Conv2d(1, 4, 3), Draws(0), mean_range=2.0, variance=1.0)
    layer.norm = nn.BatchNorm2d(4, affine=False, track_running_stats=False)
    layer.size.fill_(5)
    norms = nn.InstanceNorm2d(4, affine=True), nn.BatchNorm1d(5, track_running_stats=False), nn.LayerNorm(5)
    bottom = nn.Sequential(layer, nn.Sigmoid(), norms[0])
    top = nn.Sequential(nn.Flatten(), nn.Linear(36, 5), norms[1], nn.Sigmoid(), norms[2], nn.Linear(5, 3))
    model = Whole(bottom, top).double()
    drawn = {name: torch.randn(3, *weight.shape, generator=rng).double() for name, weight in model.named_parameters()}
    names = [name for name in drawn if "coder" not in name]
    rows, labels, factors = (torch.randn(3, *size, generator=rng).double() for size in ((4, 1, 5, 5), (4, 3), (2, 4)))
    guess = [rows.requires_grad_(), labels.requires_grad_()]
    expected = torch.stack(list(one_by_one(model, names, drawn, factors, *guess)))
    batched = gradients(model, names, drawn)(*guess, [factors])
    assert batched.shape == (3, sum(drawn[name][0].numel() for name in names)) and layer.given is None
    torch.testing.assert_close(batched, expected)
    slopes = [torch.autograd.grad(value.square().sum(), guess) for value in (batched, expected)]
    torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("method", ["dlg", "cosine"])
def test_no_message_changes_what_is_found_in_another(undefended, method, monkeypatch):
    attack, view = GradientInversion(method=method, messages=2, restarts=1, steps=30), undefended.view("client0")
    view = replace(view, victim="client0", hints=replace(view.hints, shapes={"client0": (1, 8, 8)}))
    together = attack.run(view, generator(0)).values
    monkeypatch.setattr(gradient_inversion, "LARGEST", 1)  # each alone, from the same start
    alone = attack.run(view, generator(0)).values
    assert together.shape == (2, 1, 8, 8) and not torch.allclose(together[0], together[1], atol=0.1)
    torch.testing.assert_close(together, alone, atol=1e-3, rtol=0)


def problem(rows, start=0.0):
    return Attempt(torch.full((rows, 2), start), torch.zeros(rows, 3), False, {}, [], torch.zeros(100))


def test_problems_are_solved_at_once_if_they_have_as_many_rows_and_fit(monkeypatch):
    problems = [problem(rows) for rows in (2, 1, 2, 2, 1)]
    assert list(_chunks(problems)) == [[0, 2, 3], [1, 4]]
    monkeypatch.setattr(gradient_inversion, "LARGEST", 1000)  # 100 for the gradient, 200 for every row
    assert list(_chunks(problems)) == [[0, 2], [3], [1, 4]]


def test_the_end_with_the_least_objective_is_taken(undefended, monkeypatch):
    values = torch.tensor([3.0, 1.0, 2.0, torch.nan, 5.0, 4.0])
    monkeypatch.setattr(GradientInversion, "_cosines", lambda self, gradient, start, *rest: (start[0], values))
    attack, model = GradientInversion(method="cosine", restarts=3), Whole(nn.Identity(), nn.Identity())
    problems = [problem(1, float(number)) for number in range(6)]
    guesses = attack._solve(model, [], problems, undefended.manifest("client0"))
    assert [float(guess.mean()) for guess in guesses] == [1, 5]


def test_passports_are_searched_for_where_they_are_to_be_fitted(monkeypatch):
    """Only the picture, gamma and beta are free, since the label is known; the gradient depends on all of them."""
    task, seen = cl.data.digits(parties=1, label_party="server"), {}

    def search(self, gradient, start, wanted, least):
        free = [tensor.requires_grad_() for tensor in start]
        seen[self.passports] = torch.autograd.grad(gradient(free).square().sum(), free)
        return start[0].detach(), torch.zeros(len(wanted))

    monkeypatch.setattr(GradientInversion, "_cosines", search)
    run = federate(
        task,
        clients=2,
        rounds=1,
        method=Method.PRIVATE_BOTTOM,
        exchange=Exchange.GRADIENTS,
        defences=[cl.defences.Passport(where="bottom")],
        recipe=cl.Recipe(batch_size=1, optimiser=cl.Optimiser.SGD, lr=0.01),
        keep="all",
    )
    for passports in ("guess", "fit"):
        attack_run(run, [GradientInversion(method="cosine", passports=passports, messages=1)])
    (picture,), (again, factors) = seen["guess"], seen["fit"]
    assert picture.shape == again.shape and factors.shape[:2] == (2, 2) and bool((factors != 0).any())


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "sgd"},
        {"knows": "all"},
        {"passports": "stolen"},
        {"steps": 0},
        {"restarts": 0},
        {"lr": 0.0},
        {"tv": -1.0},
    ],
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
