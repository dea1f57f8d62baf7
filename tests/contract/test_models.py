"""What every bottom and top must keep to. They are found, not listed: a new file is tested as it is added.

Each is made from several kinds of inputs. It refuses those it cannot read, and serves at least one.
"""

import copy
import inspect
from contextlib import suppress
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from cutlayer import models
from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Column, ColumnKind, Features
from cutlayer.errors import ConfigError, DataError
from cutlayer.models import bert, named

WIDTH = 3


def rows(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 1, 2 * torch.Size(shape).numel()).reshape(2, *shape)


FEATURES = {
    "a table": Features(rows(6)),
    "a table with categories": Features(
        torch.tensor([[0.5, 2.0], [0.1, 0.0]]), (Column("age"), Column("city", ColumnKind.CATEGORICAL, levels=3))
    ),
    "grey images": Features(rows(1, 28, 14)),
    "colour images": Features(rows(3, 32, 16)),
    "sparse text": Features(SparseRows(torch.tensor([0, 2, 3]), torch.tensor([0, 6, 2]), torch.ones(3), 7)),
    "token ids": Features(torch.tensor([[5, 9, 0], [7, 0, 0]])),
}
SIZES = ((12, 12), (12, WIDTH), (16 * 8 * 8, WIDTH), (8 * 12 * 12, WIDTH), (64 * 16 * 16, WIDTH))  # inputs and outputs


@pytest.fixture(autouse=True)
def small_bert(monkeypatch):
    """A whole one takes seconds."""
    small = partial(bert.Bert, hidden=8, heads=2, vocabulary=20)
    monkeypatch.setattr(bert, "Bert", lambda width, weights, layers: small(width, weights=weights, layers=1))


@pytest.fixture(autouse=True)
def fixed_start():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def test_every_bottom_keeps_the_contract(subtests, tmp_path):
    for name, maker in named.bottoms().items():
        with subtests.test(name):
            check_settings(maker, ["features", "width"])
            check_all(named.bottom(name), [(f, WIDTH, f.values) for f in FEATURES.values()], tmp_path)


def test_every_top_keeps_the_contract(subtests, tmp_path):
    for name, maker in named.tops().items():
        with subtests.test(name):
            check_settings(maker, ["inputs", "outputs"])
            check_all(named.top(name), [(inputs, outputs, rows(inputs)) for inputs, outputs in SIZES], tmp_path)


def check_settings(maker, first):
    """Two arguments by position, then settings by keyword with defaults; exported, with a sentence about it."""
    parameters = list(inspect.signature(maker).parameters.values())
    assert [parameter.name for parameter in parameters[:2]] == first
    for parameter in parameters[2:]:
        assert parameter.kind is parameter.KEYWORD_ONLY, f"{parameter.name} must be by keyword"
        assert parameter.default is not parameter.empty, f"{parameter.name} must have a default"
    assert (inspect.getdoc(maker) or "").splitlines()[0].endswith("."), "begin with one sentence on one line"
    assert getattr(models, maker.__name__) is maker and maker.__name__ in dir(models), "not exported"


def check_all(make, cases, folder):
    served = 0
    for source, size, inputs in cases:
        with suppress(ConfigError, DataError):
            make(source, size)
            check(lambda source=source, size=size: make(source, size), inputs, folder)
            served += 1
    assert served, "it refuses every kind of inputs: add one that it reads"


def check(make, inputs, folder):
    """One finite row per row; inputs stay; all of it learns; copies, saved weights and seeds give the same."""
    values = inputs.values if isinstance(inputs, SparseRows) else inputs
    before = values.clone()
    torch.manual_seed(3)
    model = make()
    output = model(inputs)
    assert len(output) == len(inputs) and output.isfinite().all(), "one finite row per row"
    if output.requires_grad:  # no top at all has nothing to learn
        output.square().sum().backward()
    assert torch.equal(values, before), "the inputs were changed"
    for name, part in model.named_parameters():
        assert part.grad is not None and part.grad.isfinite().all(), f"{name} learns nothing"
    expected = model.eval()(inputs)
    torch.testing.assert_close(copy.deepcopy(model)(inputs), expected, rtol=0, atol=0)
    check_weights(make, model, folder / "weights.safetensors")


def check_weights(make, model, file):
    """Saved weights make the same model again, and so does the seed."""
    save_file(model.state_dict(), file)
    torch.manual_seed(3)
    same = make()
    for (name, first), second in zip(model.named_parameters(), same.parameters(), strict=True):
        assert torch.equal(first, second), f"{name} differs from the same seed"
    torch.manual_seed(4)
    other = make()
    other.load_state_dict(load_file(file))
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in model.state_dict().items())


class Careless(nn.Module):
    """Breaks one rule."""

    def __init__(self, rule: str) -> None:
        super().__init__()
        self.rule, self.layer = rule, nn.Linear(6, WIDTH)
        if rule == "idle":
            self.idle = nn.Linear(1, 1, bias=False)
        if rule == "seed":
            self.layer.weight.data.uniform_(generator=GENERATOR)

    def forward(self, inputs):
        output = self.layer(inputs.mul_(2) if self.rule == "inputs" else inputs)
        return output[:1] if self.rule == "rows" else output


GENERATOR = torch.Generator().manual_seed(0)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("rows", "one finite row per row"),
        ("inputs", "the inputs were changed"),
        ("idle", "idle.weight learns nothing"),
        ("seed", "differs from the same seed"),
    ],
)
def test_a_model_that_breaks_a_rule_is_refused(rule, message, tmp_path):
    with pytest.raises(AssertionError, match=message):
        check(lambda: Careless(rule), rows(6), tmp_path)


def test_a_model_that_refuses_everything_is_refused(tmp_path):
    def refuse(source, size):
        raise ConfigError("no")

    with pytest.raises(AssertionError, match="refuses every kind of inputs"):
        check_all(refuse, [(12, WIDTH, rows(12))], tmp_path)


def test_a_maker_without_a_default_is_refused():
    def short_bottom(features, width, *, hidden):
        """It needs a setting."""

    with pytest.raises(AssertionError, match="hidden must have a default"):
        check_settings(short_bottom, ["features", "width"])
