"""What every model promises: it copies, saves, repeats from its seed, leaves its inputs alone."""

import copy
import inspect
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import cutlayer.models as models
from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Column, ColumnKind, Features
from cutlayer.errors import ConfigError
from cutlayer.models import named

CITY = Column("city", ColumnKind.CATEGORICAL, levels=3)
GREY, COLOUR = (1, 28, 14), (3, 32, 16)
SPARSE = SparseRows(torch.tensor([0, 2, 3]), torch.tensor([0, 6, 2]), torch.ones(3), 7)
IDS = torch.tensor([[5, 9, 0], [7, 0, 0]])


def image(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.linspace(-1, 1, 2 * torch.Size(shape).numel()).reshape(2, *shape)


CASES = {
    "MLP": (lambda: models.MLP(6, [4, 3], batch_norm=True, first_activation=True), image((6,))),
    "AlexNet": (lambda: models.AlexNet(COLOUR), image(COLOUR)),
    "AlexNetRest": (lambda: models.AlexNetRest((64, 8, 4), 3), image((64, 8, 4))),
    "AlexNetTop": (lambda: models.AlexNetTop((256, 4, 2)), image((256, 4, 2))),
    "Bert": (lambda: models.Bert(3, layers=1, hidden=8, heads=2, vocabulary=20, dropout=0.0), IDS),
    "DeepCross": (lambda: models.DeepCross([Column("age"), CITY]), torch.tensor([[0.5, 2.0], [0.1, 0.0]])),
    "LeNet": (lambda: models.LeNet(GREY, width=3), image(GREY)),
    "LeNetTop": (lambda: models.LeNetTop((16, 8, 7)), image((16, 8, 7))),
    "LeNetRest": (lambda: models.LeNetRest((8, 12, 11), activation="sigmoid"), image((8, 12, 11))),
    "FirstLayer": (lambda: models.FirstLayer(GREY, activation="tanh"), image(GREY)),
    "ResNet18": (lambda: models.ResNet18(COLOUR, max_pool=True), image(COLOUR)),
    "ResNet20": (lambda: models.ResNet20(COLOUR, width=3), image(COLOUR)),
    "SparseLinear": (lambda: models.SparseLinear(7, 3), SPARSE),
    "TokenMean": (lambda: models.TokenMean(3, vocabulary=20), IDS),
}


def test_every_class_has_a_case_here():
    assert set(CASES) == {name for name in models.__all__ if inspect.isclass(getattr(models, name))}


@pytest.mark.parametrize("name", CASES)
def test_copies_and_saved_weights_give_the_same_output(name, tmp_path):
    make, inputs = CASES[name]
    model = make()
    model(inputs)  # moves batch statistics off their start
    model.eval()
    output = model(inputs)
    torch.testing.assert_close(copy.deepcopy(model)(inputs), output, rtol=0, atol=0)
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    other = make().eval()
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    torch.testing.assert_close(other(inputs), output, rtol=0, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_inputs_are_left_alone_and_every_parameter_learns(name):
    make, inputs = CASES[name]
    values = inputs.values if isinstance(inputs, SparseRows) else inputs
    before = values.clone()
    model = make()
    model(inputs).square().sum().backward()
    assert torch.equal(values, before)
    assert all(part.grad is not None and part.grad.isfinite().all() for part in model.parameters())


@pytest.mark.parametrize("name", CASES)
def test_the_same_seed_gives_the_same_weights(name):
    make, _ = CASES[name]
    torch.manual_seed(3)
    first = make().state_dict()
    torch.manual_seed(3)
    second = make().state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_transformers_is_imported_only_when_needed():
    code = "import sys, cutlayer.models; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def own_bottom(features, width, *, hidden: int = 8):
    return nn.Sequential(nn.Flatten(), nn.Linear(features.values[0].numel(), hidden), nn.Linear(hidden, width))


def test_a_model_of_ones_own_goes_by_its_dotted_name():
    name = f"{__name__}.own_bottom"
    made = named.bottom(f"{name}:hidden=5")(Features(torch.zeros(3, 1, 4, 2)), 7)
    assert [m.out_features for m in made if isinstance(m, nn.Linear)] == [5, 7]
    with pytest.raises(ConfigError, match="Unknown setting 'depth'"):
        named.bottom(f"{name}:depth=2")
    with pytest.raises(ConfigError, match=r"Could not import bottom 'nowhere\.at_all'"):
        named.bottom("nowhere.at_all")
