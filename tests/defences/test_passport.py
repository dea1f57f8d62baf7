"""Passports: the layer by hand, its three gradient paths, fresh draws, secrets that stay, and the paper's Eq. 8."""

import copy

import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer.blocks.passport import PassportLayer, passport_layers
from cutlayer.blocks.secret_parts import without_secrets
from cutlayer.defence import Role, Setting, Subject
from cutlayer.defences.passport import Passport
from cutlayer.errors import ConfigError
from cutlayer.models.lenet import LeNet, LeNetTop
from cutlayer.models.mlp import MLP
from cutlayer.rng import Stream
from tests.helpers.toy import draws, rng


def setting(subject=Subject.BOTTOM, role=Role.FEATURE_PARTY, seed=0):
    return Setting(party="shop", role=role, subject=subject, classes=3, rng=draws(seed), shared_seed=3)


def layer_of(inner, mean_range=10.0, variance=1.0, bounded=True):
    return PassportLayer(inner, draws(), mean_range=mean_range, variance=variance, bounded=bounded)


def run(module, inputs, seed=0):
    with Stream(seed, "test").scope():
        return module(inputs)


def test_a_linear_layer_by_hand():
    layer = layer_of(nn.Linear(2, 2), variance=0.0, bounded=False)
    layer.inner.weight.data = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    layer.coder = nn.Identity()
    layer.means.copy_(torch.tensor([[-1.0, -2.0], [-3.0, -1.0]]))  # W s = (-5, -2) and (-5, -1)
    output = run(layer, torch.tensor([[1.0, 1.0]]))  # W x = (3, 1)
    assert torch.allclose(output, torch.tensor([[-5.0 * 3 - 5, -2.0 * 1 - 1]]))
    layer.bounded = True
    expected = torch.tensor([[-5.0, -2.0]]).tanh() * torch.tensor([[3.0, 1.0]]) + torch.tensor([[-5.0, -1.0]]).tanh()
    assert torch.allclose(run(layer, torch.tensor([[1.0, 1.0]])), expected)


def test_a_convolution_by_hand():
    layer = layer_of(nn.Conv2d(1, 1, 2, bias=False), variance=0.0).eval()
    layer.inner.weight.data = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    layer.coder = nn.Identity()
    layer.means.copy_(torch.tensor([[-1.0], [-2.0]]))  # constant passports: every place sees -10 and -20
    inputs = torch.arange(9.0).view(1, 1, 3, 3)
    plain = layer.inner(inputs) / (1 + layer.norm.eps) ** 0.5  # batch norm before any training
    assert torch.allclose(run(layer, inputs), -10 * plain - 20)


@pytest.mark.parametrize("inner", [nn.Linear(4, 8), nn.Conv2d(4, 8, 3)])
def test_gradients_flow_along_all_three_paths(inner):
    shape = (5, 4) if isinstance(inner, nn.Linear) else (5, 4, 5, 5)
    layer = layer_of(inner, mean_range=1.0).double()
    inputs = torch.randn(*shape, generator=rng(1), dtype=torch.float64)
    parameters = list(layer.parameters())

    def loss(*values):
        for parameter, value in zip(parameters, values, strict=True):
            parameter.data = value
        return run(layer, inputs).square().mean()

    wanted = torch.autograd.grad(loss(*[p.data for p in parameters]), parameters)
    for index, gradient in enumerate(wanted):
        base = [p.data.clone() for p in parameters]
        for place in torch.randperm(gradient.numel(), generator=rng(2))[:4].tolist():
            ends = []
            for step in (1e-6, -1e-6):
                moved = [tensor.clone() for tensor in base]
                moved[index].view(-1)[place] += step
                ends.append(loss(*moved).item())
            loss(*base)
            assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(float(gradient.view(-1)[place]), rel=1e-4, abs=1e-7)


def test_without_the_passport_paths_the_gradient_differs():
    layer = layer_of(nn.Linear(4, 8), mean_range=1.0)
    inputs = torch.randn(5, 4, generator=rng(1))
    weight = layer.inner.weight
    (whole,) = torch.autograd.grad(run(layer, inputs).square().mean(), weight)
    with torch.no_grad(), Stream(0, "test").scope():
        layer.given = layer.factors(inputs)
    (direct,) = torch.autograd.grad(run(layer, inputs).square().mean(), weight)
    assert not torch.allclose(whole, direct, rtol=1e-2)


@pytest.mark.parametrize("training", [True, False])
def test_passports_are_fresh_for_every_batch(training):
    layer = layer_of(nn.Linear(4, 8), mean_range=1.0, variance=4.0).train(training)
    inputs = torch.randn(5, 4, generator=rng(1))
    with Stream(0, "test").scope():
        assert not torch.allclose(layer(inputs), layer(inputs))


def test_means_are_negative_secret_and_kept_with_the_weights():
    bottom = Passport(mean_range=7.0).model(MLP(4, [8, 6]), setting(seed=1))
    other = Passport(mean_range=7.0).model(MLP(4, [8, 6]), setting(seed=2))
    (layer,), (different,) = passport_layers(bottom), passport_layers(other)
    assert ((layer.means <= 0) & (layer.means >= -7)).all() and layer.means.unique().numel() > 10
    assert not torch.allclose(layer.means, different.means)
    other.load_state_dict(bottom.state_dict())
    assert torch.equal(layer.means, different.means)
    public = without_secrets(bottom, draws(3))
    assert not torch.allclose(passport_layers(public)[0].means, layer.means)
    assert torch.equal(passport_layers(public)[0].inner.weight, layer.inner.weight)


def test_guesses_are_alike_unless_means_are_centred():
    """E[m m'] / E[m^2] is (1/4) / (1/3) for uniform numbers between -1 and 0, and 0 around 0."""
    for centred, expected in ((False, 0.75), (True, 0.0)):
        first, second = (
            PassportLayer(nn.Linear(20_000, 1), draws(seed), mean_range=3.0, variance=1.0, centred=centred).means[0]
            for seed in (1, 2)
        )
        assert float(first @ second / (first.norm() * second.norm())) == pytest.approx(expected, abs=0.02)
        assert float(first.min()) < -2.9 and (float(first.max()) > 2.9) is centred


def test_equation_8_a_guessed_passport_costs_its_distance():
    """Definition 1: H = W x + W s. Solving it with s' in place of s is off by s - s' for any W."""
    layer = layer_of(nn.Linear(5, 5), mean_range=10.0, variance=1.0, bounded=False).double()
    layer.coder = nn.Identity()
    x = torch.rand(3, 5, generator=rng(1), dtype=torch.float64)
    with Stream(0, "test").scope():
        true, guess = layer.passports(x)[1], layer.passports(x)[1]
    ones = torch.ones(5, dtype=torch.float64)
    layer.given = ones, layer.weigh(true[None])[0]
    sent = layer(x)
    estimate = torch.linalg.solve(layer.inner.weight, (sent - layer.weigh(guess[None])).T).T
    assert torch.allclose((estimate - x).norm(dim=1), (true - guess).norm().expand(3))


def test_the_last_layer_of_a_bottom_and_the_first_linear_of_a_top():
    bottom = Passport().model(LeNet((1, 28, 28)), setting())
    assert isinstance(bottom.layers.conv2, PassportLayer) and isinstance(bottom.layers.conv1, nn.Conv2d)
    assert isinstance(bottom.layers.norm2, nn.Identity), "batch norm after it would undo it"
    top = Passport().model(LeNetTop(), setting(Subject.TOP, Role.LABEL_PARTY))
    assert isinstance(top.fc1, PassportLayer) and isinstance(top.fc2, nn.Linear)
    assert isinstance(Passport().model(nn.Linear(3, 2), setting()), PassportLayer)
    named = Passport(bottom_layer="layers.conv1").model(LeNet((1, 28, 28)), setting())
    assert isinstance(named.layers.conv1, PassportLayer)


@pytest.mark.parametrize(
    ("where", "bottom", "top"), [("bottom", True, False), ("top", False, True), ("both", True, True)]
)
def test_each_side_has_its_own(where, bottom, top):
    defence = Passport(where=where)
    assert bool(passport_layers(defence.model(MLP(4, [3]), setting()))) is bottom
    assert bool(passport_layers(defence.model(MLP(4, [3]), setting(Subject.TOP, Role.LABEL_PARTY)))) is top
    assert not passport_layers(defence.model(MLP(4, [3]), setting(Subject.BOTTOM, Role.LABEL_PARTY))), "is not sent"


def test_training_and_a_reload_keep_accuracy():
    task = cl.data.digits(parties=2)
    plan = {"defences": [Passport(mean_range=10.0, variance=1.0)], "seed": 0}
    run = cl.train(task, recipe=cl.Recipe(epochs=12), **plan)
    assert run.metrics["accuracy"] > 0.9
    again = cl.train(task, recipe=cl.Recipe(epochs=1), **plan)
    for name, party in again.session.parties.items():
        for part, module in party.modules.items():
            module.load_state_dict(copy.deepcopy(run.session.parties[name].modules[part].state_dict()))
    assert again.evaluate(task.test)["accuracy"] > 0.9
    (layer,) = passport_layers(again.session.parties["party2"].modules["bottom"])
    layer.means.neg_()
    assert again.evaluate(task.test)["accuracy"] < 0.5, "with quite other means it is another model"


def test_pictures_of_another_size_are_refused():
    bottom = Passport().model(LeNet((1, 28, 28)), setting())
    run(bottom.train(), torch.rand(4, 1, 28, 28, generator=rng()))
    restored = Passport().model(LeNet((1, 28, 28)), setting())
    restored.load_state_dict(copy.deepcopy(bottom.state_dict()))
    with pytest.raises(ConfigError, match=r"Expected pictures that are 12 x 12 .* got 16 x 16"):
        run(restored.eval(), torch.rand(4, 1, 36, 36, generator=rng()))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mean_range": 0.0}, "mean_range"),
        ({"variance": -1.0}, "variance"),
        ({"where": "middle"}, "where"),
    ],
)
def test_bad_settings(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Passport(**settings)


def test_no_layer_to_hold_a_passport():
    with pytest.raises(ConfigError, match="Expected a convolution or linear layer in shop's bottom"):
        Passport().model(nn.Flatten(), setting())
    with pytest.raises(ConfigError, match="one of layers"):
        Passport(bottom_layer="fc9").model(LeNet((1, 28, 28)), setting())
