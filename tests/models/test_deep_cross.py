import pytest
import torch

from cutlayer.data.task import Column, ColumnKind
from cutlayer.errors import ConfigError
from cutlayer.models import DeepCross
from cutlayer.models.parts.cross import Cross

COLUMNS = (
    Column("age"),
    Column("city", ColumnKind.CATEGORICAL, levels=3),
    Column("member", ColumnKind.BINARY),
    Column("job", ColumnKind.CATEGORICAL, levels=2),
)


def test_one_cross_layer_by_hand():
    layer = Cross(2)
    layer.weight.data = torch.tensor([0.5, -1.0])
    layer.bias.data = torch.tensor([0.1, 0.2])
    first, inputs = torch.tensor([[2.0, 3.0]]), torch.tensor([[4.0, 1.0]])
    # w·x = 0.5*4 - 1 = 1, so x0*1 + b + x = (2 + 0.1 + 4, 3 + 0.2 + 1)
    torch.testing.assert_close(layer(first, inputs), torch.tensor([[6.1, 4.2]]))


def test_categories_are_embedded_and_numbers_pass_through():
    model = DeepCross(COLUMNS, 5, embedding=2)
    table = torch.arange(10.0).reshape(5, 2)  # cities are rows 0 to 2, jobs rows 3 and 4
    model.embedding.weight.data = table
    embedded = model.embed(torch.tensor([[0.7, 2.0, 1.0, 0.0], [-1.0, 0.0, 0.0, 1.0]]))
    expected = [[0.7, 1.0, 4.0, 5.0, 6.0, 7.0], [-1.0, 0.0, 0.0, 1.0, 8.0, 9.0]]
    torch.testing.assert_close(embedded, torch.tensor(expected))


def test_the_whole_model_by_its_formula():
    model = DeepCross(COLUMNS, 5, embedding=2, cross=2, widths=(4, 3))
    inputs = torch.tensor([[0.7, 2.0, 1.0, 0.0], [-1.0, 0.0, 0.0, 1.0]])
    embedded = model.embed(inputs)
    lower, upper = model.cross
    rows = []
    for x0 in embedded:
        x1 = x0 * (lower.weight @ x0) + lower.bias + x0
        x2 = x0 * (upper.weight @ x1) + upper.bias + x1
        deep = x0
        for index in (1, 3):
            linear = model.deep.layers[index]
            deep = (linear.weight @ deep + linear.bias).clamp(min=0)
        rows.append(model.join.weight @ torch.cat([x2, deep]) + model.join.bias)
    torch.testing.assert_close(model(inputs), torch.stack(rows))


def test_tables_of_one_kind_only_work():
    numbers = DeepCross([Column("a"), Column("b")], 3)
    assert numbers(torch.randn(4, 2)).shape == (4, 3)
    codes = DeepCross([Column("c", ColumnKind.CATEGORICAL, levels=6)], 3)
    assert codes(torch.tensor([[5.0], [0.0]])).shape == (2, 3)


def test_wrong_arguments_are_named():
    with pytest.raises(ConfigError, match="at least one input column"):
        DeepCross([])
    with pytest.raises(ConfigError, match="categorical column 'city' to say how many levels"):
        DeepCross([Column("city", ColumnKind.CATEGORICAL)])
    with pytest.raises(ConfigError, match="Expected embedding=0"):
        DeepCross(COLUMNS, embedding=0)
