"""What every defence must keep to. Classes are found, not listed: a new file is tested as it is added."""

import copy
import inspect
from pathlib import Path

import pytest
import torch
from torch import nn

import cutlayer.defences
from cutlayer.defence import Defence, Local, Place, Role, Setting
from cutlayer.errors import ConfigError
from cutlayer.spec import describe, find, parse

FOUND = find(cutlayer.defences, Defence)
ROOT = Path(__file__).parents[2]
BATCHES = {
    "rows": torch.randn(12, 6, generator=torch.Generator().manual_seed(1)),
    "one row": torch.tensor([[3.0, 4.0]]),
    "some zero rows": torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0], [0.1, 0.0]]),
    "all zero": torch.zeros(5, 3),
    "feature maps": torch.randn(6, 2, 3, 3, generator=torch.Generator().manual_seed(2)),
    "doubles": torch.randn(7, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64),
}
BOTTOM_INPUTS = 5


def local(place, payload, seed=0, training=True):
    count = len(payload)
    return Local(
        place=place,
        rng=torch.Generator().manual_seed(seed),
        training=training,
        rows=torch.arange(count),
        inputs=torch.full((count, BOTTOM_INPUTS), 0.5) if place is Place.EMBEDDING else None,
        labels=torch.arange(count) % 2 if place is not Place.EMBEDDING else None,
    )


def setting(role, part, seed=0):
    return Setting(party="p", role=role, part=part, classes=2, rng=torch.Generator().manual_seed(seed), shared_seed=3)


@pytest.fixture(params=sorted(FOUND))
def defence(request):
    return FOUND[request.param]()


@pytest.fixture(autouse=True)
def global_state_stays():
    """Draw only from the generator that was lent."""
    before = torch.random.get_rng_state()
    yield
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("place", list(Place))
def test_what_leaves_has_the_shape_it_had_and_is_finite(defence, place, batch, training):
    payload = BATCHES[batch].clone()
    sent = defence.protect(payload, local(place, payload, training=training))
    assert (sent.shape, sent.dtype, sent.device) == (payload.shape, payload.dtype, payload.device)
    assert sent.isfinite().all()
    assert torch.equal(payload, BATCHES[batch]), "the input was changed in place"


@pytest.mark.parametrize("place", list(Place))
def test_the_same_generator_gives_the_same_message(defence, place):
    payload = BATCHES["rows"]
    one, two = (defence.protect(payload, local(place, payload, seed=5)) for _ in range(2))
    assert torch.equal(one, two)


def test_its_owner_can_learn_through_it(defence):
    payload = BATCHES["rows"].clone().requires_grad_()
    here = local(Place.EMBEDDING, payload)
    sent, extra = defence.protect(payload, here), defence.penalty(payload, here)
    assert sent.requires_grad
    torch.autograd.backward(
        [sent] + ([] if extra is None else [extra]), [torch.ones_like(sent)] + [None] * (extra is not None)
    )
    assert payload.grad is not None and payload.grad.isfinite().all()


@pytest.mark.parametrize("role", list(Role))
def test_labels_keep_their_rows_and_their_input(defence, role):
    labels = torch.arange(40) % 2
    one, two = (defence.labels(labels.clone(), setting(role, "labels", seed=5)) for _ in range(2))
    assert len(one) == len(labels) and torch.equal(one, two)
    assert one.is_floating_point() == (one.ndim == 2)
    if role is Role.FEATURE_PARTY:
        assert torch.equal(one, labels), "labels belong to the label party"


def accepted(defence, setting, *models):
    """The first model that a defence does not refuse."""
    for model in models[:-1]:
        try:
            defence.model(copy.deepcopy(model), setting)
            return model
        except ConfigError:
            continue
    return models[-1]


@pytest.mark.parametrize(
    ("role", "part"),
    [(Role.FEATURE_PARTY, "bottom"), (Role.LABEL_PARTY, "bottom"), (Role.LABEL_PARTY, "top")],
)
def test_models_are_returned_anew_and_repeatably(defence, role, part):
    with torch.random.fork_rng(devices=[]):
        width = defence.width(4, classes=2)
        layers = nn.Sequential(nn.Linear(BOTTOM_INPUTS, 8), nn.ReLU(), nn.Linear(8, width))
        model = accepted(defence, setting(role, part), layers, nn.Linear(BOTTOM_INPUTS, width, bias=False))
        inputs = torch.rand(6, BOTTOM_INPUTS)
        outputs = []
        for _ in range(2):
            torch.manual_seed(7)  # parties build models inside their own stream, see rng.Stream.scope
            made = defence.model(copy.deepcopy(model), setting(role, part, seed=5)).eval()
            torch.manual_seed(8)
            outputs.append(made(inputs))
    assert torch.equal(*outputs) and outputs[0].isfinite().all() and len(outputs[0]) == len(inputs)


@pytest.mark.parametrize("role", list(Role))
def test_columns_are_returned_anew_and_repeatably(defence, role):
    values = torch.rand(20, BOTTOM_INPUTS, generator=torch.Generator().manual_seed(4))
    values[:, 0] = (values[:, 0] > 0.5).float()
    before = values.clone()
    one, two = (defence.features(values, setting(role, "features", seed=5)) for _ in range(2))
    assert torch.equal(one, two) and torch.equal(values, before), "repeatable, and not in place"
    assert len(one) == len(values) and one.isfinite().all() and one.dtype == values.dtype


@pytest.mark.parametrize("name", sorted(FOUND))
def test_settings_are_by_keyword_have_defaults_and_can_be_spelled(name):
    cls = FOUND[name]
    for parameter in inspect.signature(cls).parameters.values():
        assert parameter.kind is parameter.KEYWORD_ONLY and parameter.default is not parameter.empty
    made = cls()
    assert describe(parse(made.describe(), cutlayer.defences, Defence, "defence")) == made.describe()
    assert getattr(cutlayer.defences, cls.__name__) is cls and cls.__name__ in cutlayer.defences.__all__


@pytest.mark.parametrize("name", sorted(FOUND))
def test_its_words_are_there(name):
    cls = FOUND[name]
    doc = inspect.getdoc(cls) or ""
    assert "Guarantee:" in doc and "Does not hide:" in doc, "say what holds and what does not"
    assert "arXiv:" in doc or "Paper:" in doc, "name the paper"
    file = Path(inspect.getfile(cls)).stem
    assert (ROOT / "tests" / "defences" / f"test_{file}.py").exists(), "write a test file"
