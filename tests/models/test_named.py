"""Bottoms and tops by name."""

import pytest
import torch
from torch import nn

from cutlayer.data.task import Features
from cutlayer.errors import ConfigError
from cutlayer.models import named

TABLE = Features(torch.zeros(3, 4))


def own_bottom(features, width, *, hidden: int = 8):
    return nn.Sequential(nn.Flatten(), nn.Linear(features.values[0].numel(), hidden), nn.Linear(hidden, width))


def linears(model: nn.Module) -> list[int]:
    return [layer.out_features for layer in model.modules() if isinstance(layer, nn.Linear)]


def test_a_name_and_settings_make_a_model():
    bottom = named.bottom("mlp:hidden=5-6,activation=tanh")
    assert bottom.spelling == "mlp:hidden=5-6,activation=tanh" and bottom.settings["hidden"] == (5, 6)
    assert linears(bottom(TABLE, 7)) == [5, 6, 7]
    assert linears(named.top("relu-mlp:hidden=none")(4, 2)) == [2]


def test_what_ends_in_bottom_or_top_is_found_under_the_rest_of_its_name():
    assert named.bottoms()["first-layer"].__name__ == "first_layer_bottom"
    assert named.tops()["lenet-rest"].__name__ == "lenet_rest_top"
    assert "lenet" in named.bottoms() and "lenet" in named.tops()
    assert list(named.tops()) == sorted(named.tops())


def test_a_model_of_your_own_goes_by_its_dotted_name():
    name = f"{__name__}.own_bottom"
    model = named.bottom(f"{name}:hidden=5")(Features(torch.zeros(3, 1, 4, 2)), 7)
    assert linears(model) == [5, 7]


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("mpl", "Unknown bottom 'mpl'.*Did you mean 'mlp'"),
        ("relu-mlp", "Unknown bottom 'relu-mlp'"),
        (f"{__name__}.own_bottom:depth=2", "Unknown setting 'depth'"),
        ("nowhere.at_all", r"Could not import bottom 'nowhere\.at_all'"),
    ],
)
def test_mistakes_are_named(spelling, message):
    with pytest.raises(ConfigError, match=message):
        named.bottom(spelling)


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("lenet", "Expected images"),
        ("deep-cross", "Expected a table with named columns"),
        ("bert", "Expected token ids for the bottom bert"),
    ],
)
def test_a_bottom_refuses_what_it_cannot_read(spelling, message):
    with pytest.raises(ConfigError, match=message):
        named.bottom(spelling)(TABLE, 3)


@pytest.mark.parametrize("spelling", ["mlp", "linear"])
def test_token_ids_are_no_numbers(spelling):
    with pytest.raises(ConfigError, match="got token ids: use the bottom default or bert"):
        named.bottom(spelling)(Features(torch.tensor([[5, 9], [7, 0]])), 3)


@pytest.mark.parametrize(
    ("spelling", "message"),
    [("none", "Expected --width 2"), ("linear:maps=3", "3 maps of one size"), ("lenet:maps=3", "3 square maps")],
)
def test_a_top_refuses_another_width(spelling, message):
    with pytest.raises(ConfigError, match=message):
        named.top(spelling)(10, 2)
