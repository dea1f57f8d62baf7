import pytest
import torch
from torch import nn

from cutlayer.errors import ConfigError
from cutlayer.models import MLP, SparseLinear


def kinds(model: MLP) -> list[str]:
    return [type(layer).__name__ for layer in model.layers]


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_hashvfl_bottom_and_top_are_two_linears_with_relu_between():
    bottom, top = MLP(47, [32, 4]), MLP(2 * 4, [16, 10])
    assert kinds(bottom) == kinds(top) == ["Flatten", "Linear", "ReLU", "Linear"]
    assert count(bottom) == 47 * 32 + 32 + 32 * 4 + 4
    assert top(bottom(torch.randn(5, 47)).repeat(1, 2)).shape == (5, 10)


def test_vflrecon_bottom_ends_in_its_second_hidden_layer_with_the_papers_3800_parameters():
    bottom = MLP(24, [50, 50], last_activation=True, he_uniform=True)
    assert kinds(bottom)[1:] == ["Linear", "ReLU", "Linear", "ReLU"]
    assert count(bottom) == 3800
    assert bottom(torch.randn(8, 24)).min() >= 0


def test_a_linear_bottom_without_bias_is_a_matrix():
    bottom = MLP(6, [3], bias=False)
    inputs = torch.randn(4, 6)
    (weight,) = bottom.parameters()
    torch.testing.assert_close(bottom(inputs), inputs @ weight.T)


def test_first_activation_acts_on_the_sum():
    top = MLP(3, [2], first_activation=True)
    total = torch.tensor([[-1.0, 2.0, -3.0]])
    torch.testing.assert_close(top(total), top(torch.tensor([[0.0, 2.0, 0.0]])))
    assert total.tolist() == [[-1, 2, -3]]


def test_completion_top_is_four_times_norm_relu_linear():
    top = MLP(20, [20, 10, 10, 10], first_activation=True, batch_norm=True)
    assert kinds(top)[1:] == ["BatchNorm1d", "ReLU", "Linear"] * 4


def test_norm_activation_and_dropout_come_in_that_order():
    top = MLP(8, [8, 3], first_activation=True, batch_norm=True, dropout=0.3, activation="tanh")
    assert kinds(top)[1:] == ["BatchNorm1d", "Tanh", "Dropout", "Linear"] * 2
    assert kinds(MLP(8, [8, 3], activation="none")) == ["Flatten", "Linear", "Linear"]


def test_images_are_flattened():
    assert MLP(3 * 4 * 2, [5])(torch.randn(7, 3, 4, 2)).shape == (7, 5)


def test_he_uniform_bounds_the_weights_by_the_inputs_of_each_layer():
    for sparse in (False, True):
        first = MLP(600, [50, 2], sparse=sparse, he_uniform=True).layers[0 if sparse else 1]
        assert isinstance(first, nn.Linear | SparseLinear)
        assert first.weight.abs().max().item() == pytest.approx((6 / 600) ** 0.5, rel=0.01)
        assert first.bias is not None and not first.bias.any()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"inputs": 0, "widths": [2]}, "Expected inputs=0 to be at least 1."),
        ({"inputs": 2, "widths": []}, "at least one layer"),
        ({"inputs": 2, "widths": [3, 0]}, "Expected widths=0 to be at least 1."),
        ({"inputs": 2, "widths": [3], "activation": "rely"}, "Did you mean 'relu'?"),
        ({"inputs": 2, "widths": [3], "dropout": 1.5}, "Expected dropout=1.5 to lie between 0 and 1."),
        ({"inputs": 2, "widths": [3], "sparse": True, "first_activation": True}, "must meet a linear layer"),
    ],
)
def test_wrong_arguments_are_named(arguments, sentence):
    with pytest.raises(ConfigError) as caught:
        MLP(**arguments)
    assert sentence in str(caught.value)
