"""What every cut must keep to. Classes are found, not listed: a new file is tested as it is added."""

import pytest
import torch
from torch import Tensor, nn

import cutlayer as cl
import cutlayer.cuts
from cutlayer.cut import Cut
from cutlayer.message import Kind, Message, Phase
from cutlayer.plan import assemble
from cutlayer.spec import find
from cutlayer.wire import Encoding
from tests.helpers.random_task import random_task

FOUND = find(cutlayer.cuts, Cut)
WIDTH, ROWS, COLUMNS = 16, 24, 3
RECIPE = cl.Recipe(epochs=1, batch_size=8, lr=0.1, optimiser=cl.Optimiser.SGD, momentum=0.0)


class Top(nn.Module):
    """A linear top that keeps the shapes that reach it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layer, self.shapes = nn.Linear(inputs, outputs), list[torch.Size]()

    def forward(self, joint: Tensor) -> Tensor:
        self.shapes.append(joint.shape[1:])
        return self.layer(joint.flatten(1))


def linear(features, width):
    return nn.Linear(features.values.shape[1], width, bias=False)


def nothing(features, width):
    return nn.Flatten()


def trained(cls: type[Cut], parties: int):
    """One epoch and a prediction of a small federation: the session, its messages and what it predicts."""
    task, messages = random_task("cut contract", ROWS, parties, COLUMNS, 1.0, own=True), list[Message]()
    bottoms = linear if cls.gradients else nothing
    plan = cl.Plan(bottoms=bottoms, top=Top, width=WIDTH, cut=cls(), recipe=RECIPE)
    session = assemble(task, plan, messages.append)
    before = weights(session)
    session.train_epoch(0, task.train)
    after = weights(session)
    predicted = session.predict(task.test, messages.append)
    return task, session, before, after, messages, predicted


def weights(session) -> dict[str, Tensor]:
    """A copy of every parameter and of everything remembered, by party and name."""
    return {
        f"{party}.{part}.{name}": value.clone()
        for party, side in session.parties.items()
        for part, module in side.modules.items()
        for name, value in module.state_dict().items()
        if isinstance(value, Tensor)
    }


def check(cls: type[Cut], parties: int) -> None:
    """Gradients reach every bottom, shapes are as promised, messages are well formed, and all of it repeats.

    Where no gradient leaves the label party, what the cut remembers at each party must change in place of bottoms.
    There the operating system draws shares, so only what comes of them can repeat.
    """
    task, session, before, after, messages, predicted = trained(cls, parties)
    promised = cls().shape([(WIDTH,)] * parties)
    joints = session.label_party.modules["top"].shapes
    assert {tuple(shape) for shape in joints} == {promised}, "shape() promises another joint than the top gets"
    for party in task.features:
        part = "bottom" if cls.gradients else "cut"
        learned = [name for name in after if name.startswith(f"{party}.{part}.")]
        changed = any(name not in before or not torch.equal(before[name], after[name]) for name in learned)
        assert changed, f"no gradient reaches the bottom of {party}"
    for message in messages:
        check_message(message, task)
    assert weights_equal(after, weights(session)), "a prediction changes what a party remembers"
    assert len(predicted) == len(task.test) and predicted.isfinite().all()
    again = trained(cls, parties)
    kept = [weights if cls.gradients else models(weights) for weights in (after, again[3])]
    assert weights_equal(*kept), "the same seed gives other models"
    assert torch.equal(predicted, again[5]), "the same seed gives other predictions"
    if not cls.gradients:
        assert not [m for m in messages if m.kind in (Kind.EMBEDDING, Kind.GRADIENT)], "a gradient crosses"


def models(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in weights.items() if ".cut." not in name}


def weights_equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(value, right[name]) for name, value in left.items())


def check_message(message: Message, task) -> None:
    assert {message.sender, message.receiver} <= {*task.features, task.label_party}
    assert isinstance(message.kind, Kind)
    assert message.payload.grad_fn is None, "a message drags its sender's graph along"
    if message.kind in (Kind.EMBEDDING, Kind.GRADIENT, Kind.SUM):
        assert len(message.payload) == len(message.batch.rows), "one row per sample"
    if message.batch.phase is Phase.PREDICT:
        assert message.kind is not Kind.GRADIENT, "a gradient crosses in training only"


@pytest.mark.parametrize("parties", [2, 3])
def test_every_cut_keeps_the_contract(parties, subtests):
    for name, cls in FOUND.items():
        with subtests.test(name):
            check(cls, parties)


class Careless(cl.Sum):
    """Adds up, and breaks one rule."""

    rule = ""

    def shape(self, shapes):
        return (WIDTH, 1) if self.rule == "shape" else super().shape(shapes)

    def join(self, embeddings):
        if self.rule == "gradient":
            embeddings = [embedding.detach() for embedding in embeddings[:1]] + embeddings[1:]
        if self.rule == "repeat":
            embeddings = [embeddings[0] + torch.rand((), generator=GENERATOR), *embeddings[1:]]
        return super().join(embeddings)

    def offer(self, name, roster, batch, embedding, encoding=Encoding.PLAIN):
        if self.rule == "graph":
            yield Message(batch, name, name, Kind.EMBEDDING, embedding.detach().requires_grad_() * 1)
        if self.rule == "rows":
            yield Message(batch, name, name, Kind.SUM, embedding[1:].detach())
        return (yield from super().offer(name, roster, batch, embedding, encoding))


GENERATOR = torch.Generator().manual_seed(0)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("shape", "promises another joint"),
        ("gradient", "no gradient reaches the bottom of p0"),
        ("graph", "drags its sender's graph along"),
        ("rows", "one row per sample"),
        ("repeat", "the same seed gives other models"),
    ],
)
def test_a_cut_that_breaks_a_rule_is_refused(rule, message, monkeypatch):
    check(Careless, 2)
    monkeypatch.setattr(Careless, "rule", rule)
    with pytest.raises(AssertionError, match=message):
        check(Careless, 2)
