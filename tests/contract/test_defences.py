"""What every defence must keep to. Classes are found, not listed: a new file is tested as it is added.

A hook is checked at the defences that override it; the others inherit the identity, which is checked once.
"""

import copy
from itertools import product

import pytest
import torch
from torch import nn

import cutlayer.defences
from cutlayer.defence import Defence, Local, Place, Role, Setting, Subject
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.spec import find

FOUND = find(cutlayer.defences, Defence)
PLACES = (Place.EMBEDDING, Place.GRADIENT, Place.UPDATE, Place.LOGITS)  # where something leaves
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
        rng=Draws(seed),
        training=training,
        rows=torch.arange(count),
        inputs=torch.full((count, BOTTOM_INPUTS), 0.5) if place is Place.EMBEDDING else None,
        labels=torch.arange(count) % 2 if place is not Place.EMBEDDING else None,
    )


def setting(role, part, seed=0):
    return Setting(party="p", role=role, subject=part, classes=2, rng=Draws(seed), shared_seed=3)


@pytest.fixture(autouse=True)
def global_state_stays():
    """Draw only from the generator that was lent."""
    before = torch.random.get_rng_state()
    yield
    assert torch.equal(torch.random.get_rng_state(), before)


def overriding(*hooks):
    """The base class, whose hooks are the identity, and every defence that overrides one of the hooks."""
    changed = {n: cls for n, cls in FOUND.items() if any(getattr(cls, h) is not getattr(Defence, h) for h in hooks)}
    assert changed, f"nothing overrides {hooks}"
    return {"the identity": Defence, **changed}


def check_protect(defence):
    """What leaves has the shape that it had, is finite and repeatable, and its input stays as it was."""
    for place, (batch, original), training in product(PLACES, BATCHES.items(), (True, False)):
        payload = original.clone()
        first, second = (defence.protect(payload, local(place, payload, 5, training)) for _ in range(2))
        here = f"{batch} at {place.value}, training={training}"
        assert (first.shape, first.dtype, first.device) == (payload.shape, payload.dtype, payload.device), here
        assert first.isfinite().all(), f"not finite: {here}"
        assert torch.equal(payload, original), f"the input was changed in place: {here}"
        assert torch.equal(first, second), f"the same generator gave another message: {here}"


def check_learning(defence):
    """Its owner can learn through it."""
    payload = BATCHES["rows"].clone().requires_grad_()
    here = local(Place.EMBEDDING, payload)
    sent, extra = defence.protect(payload, here), defence.penalty(payload, here)
    assert sent.requires_grad, "no gradient goes back"
    terms = [(sent, torch.ones_like(sent)), *([] if extra is None else [(extra, None)])]
    torch.autograd.backward([term for term, _ in terms], [weight for _, weight in terms])
    assert payload.grad is not None and payload.grad.isfinite().all()


def check_labels(defence):
    """Labels keep their rows, repeat from the generator, and belong to the label party."""
    labels = torch.arange(40) % 2
    for role in Role:
        first, second = (defence.labels(labels.clone(), setting(role, Subject.LABELS, seed=5)) for _ in range(2))
        assert len(first) == len(labels) and torch.equal(first, second), role
        assert first.is_floating_point() == (first.ndim == 2), "class numbers, or a row of weights per class"
        assert role is Role.LABEL_PARTY or torch.equal(first, labels), "labels belong to the label party"


def check_features(defence):
    """Columns keep their rows, repeat from the generator, and are returned anew."""
    values = torch.rand(20, BOTTOM_INPUTS, generator=torch.Generator().manual_seed(4))
    values[:, 0] = (values[:, 0] > 0.5).float()
    before = values.clone()
    for role in Role:
        first, second = (defence.features(values, setting(role, Subject.FEATURES, seed=5)) for _ in range(2))
        assert torch.equal(first, second), "not repeatable"
        assert torch.equal(values, before), "the input was changed in place"
        assert len(first) == len(values) and first.isfinite().all() and first.dtype == values.dtype


def check_batch(defence):
    """A batch's rows keep their number and type, repeat from the generator, and their input stays as it was."""
    values = torch.rand(8, BOTTOM_INPUTS, generator=torch.Generator().manual_seed(4))
    before = values.clone()
    for training in (True, False):
        first, second = (defence.batch(values, local(Place.INPUTS, values, 5, training)) for _ in range(2))
        assert torch.equal(values, before), "the input was changed in place"
        assert torch.equal(first, second), "the same generator gave another batch"
        assert len(first) == len(values) and first.isfinite().all() and first.dtype == values.dtype


def check_model(defence):
    """A model comes back that gives one finite row per row, and the same from the same generator."""
    for role, part in (
        (Role.FEATURE_PARTY, Subject.BOTTOM),
        (Role.LABEL_PARTY, Subject.BOTTOM),
        (Role.LABEL_PARTY, Subject.TOP),
    ):
        with torch.random.fork_rng(devices=[]):
            width = defence.width(4, classes=2)
            layers = nn.Sequential(nn.Linear(BOTTOM_INPUTS, 8), nn.ReLU(), nn.Linear(8, width))
            model = accepted(defence, setting(role, part), layers, nn.Linear(BOTTOM_INPUTS, width, bias=False))
            inputs = torch.rand(6, BOTTOM_INPUTS)
            outputs = []
            for _ in range(2):
                torch.manual_seed(7)  # parties build models inside their own stream, see rng.Stream.scope
                changed = defence.model(copy.deepcopy(model), setting(role, part, seed=5)).eval()
                torch.manual_seed(8)
                outputs.append(changed(inputs))
        assert torch.equal(*outputs), f"the same generator gave another {part.value}"
        assert outputs[0].isfinite().all() and len(outputs[0]) == len(inputs)


def accepted(defence, setting, *models):
    """The first model that a defence does not refuse."""
    for model in models[:-1]:
        try:
            defence.model(copy.deepcopy(model), setting)
            return model
        except ConfigError:
            continue
    return models[-1]


CHECKS = {
    check_protect: ("protect",),
    check_learning: ("protect", "penalty"),
    check_labels: ("labels",),
    check_features: ("features",),
    check_batch: ("batch",),
    check_model: ("model", "width"),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_defence_keeps_the_contract(check, subtests):
    for name, cls in overriding(*CHECKS[check]).items():
        with subtests.test(name):
            check(cls())


class Careless(Defence):
    """Breaks one rule of the contract."""

    def __init__(self, *, rule: str) -> None:
        self.rule = rule

    def protect(self, payload, local):
        return {
            "shape": lambda: payload[:, :1],
            "finite": lambda: payload / payload.flatten(1).norm(dim=1).view(-1, *[1] * (payload.ndim - 1)),
            "in place": lambda: payload.add_(1),
            "repeatable": lambda: payload + torch.rand((), generator=GENERATOR),
            "no gradient": lambda: payload.detach(),
        }.get(self.rule, lambda: payload)()

    def labels(self, labels, setting):
        return labels if self.rule != "labels" else 1 - labels

    def features(self, values, setting):
        return values if self.rule != "features" else values.mul_(2)

    def batch(self, values, local):
        return values if self.rule != "batch" else values.mul_(2)

    def model(self, model, setting):
        if self.rule == "model":
            nn.init.normal_(next(model.parameters()), generator=GENERATOR)
        return model


GENERATOR = torch.Generator().manual_seed(0)  # that nobody lent


@pytest.mark.parametrize(
    ("rule", "check", "message"),
    [
        ("shape", check_protect, "rows at embedding"),
        ("finite", check_protect, "not finite: some zero rows"),
        ("in place", check_protect, "changed in place"),
        ("repeatable", check_protect, "gave another message"),
        ("no gradient", check_learning, "no gradient goes back"),
        ("labels", check_labels, "labels belong to the label party"),
        ("features", check_features, "not repeatable|changed in place"),
        ("batch", check_batch, "changed in place"),
        ("model", check_model, "gave another bottom"),
    ],
)
def test_a_defence_that_breaks_a_rule_is_refused(rule, check, message):
    check(Careless(rule="none"))
    with pytest.raises(AssertionError, match=message):
        check(Careless(rule=rule))
