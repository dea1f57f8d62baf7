"""Theorem 1 of Ye et al. (arXiv:2210.06771): of columns that may be anything, the messages tell nothing but their span.

Rotate a feature party's columns and its first weights the other way: under SGD, with momentum or without,
the label party sees the same messages all through training, so no attack can tell the two tables apart.
Specification: binary-reconstruction, section 1.
"""

import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer.data.task import Features, Goal, Task
from cutlayer.training import train
from tests.helpers.toy import rng

ROWS, COLUMNS, WIDTH = 96, 6, 10


def double(inputs, outputs, seed):
    layer = nn.Linear(inputs, outputs, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(outputs, inputs, generator=rng(seed), dtype=torch.float64) / inputs**0.5)
    return layer


def messages(optimiser, momentum, turn):
    """All that crosses in three epochs, where columns are X U' and the first weights W U'."""
    draws = rng(0)
    secret = torch.randn(ROWS, COLUMNS, generator=draws, dtype=torch.float64)
    own = torch.randn(ROWS, 3, generator=draws, dtype=torch.float64)
    labels = (secret.sum(dim=1) + own.sum(dim=1) > 0).long()
    bottoms = {"bank": double(3, WIDTH, 1), "shop": double(COLUMNS, WIDTH, 2)}
    with torch.no_grad():
        bottoms["shop"].weight.copy_(bottoms["shop"].weight @ turn.T)
    features = {"bank": Features(own), "shop": Features(secret @ turn.T)}
    rows = torch.arange(ROWS)
    task = Task("toy", features, labels, "bank", Goal.BINARY, ("no", "yes"), rows, rows)
    recipe = cl.Recipe(epochs=3, batch_size=16, optimiser=optimiser, lr=0.05, momentum=momentum, weight_decay=1e-3)
    top = nn.Sequential(nn.ReLU(), double(WIDTH, 2, 3))
    run = train(task, bottoms=bottoms, top=top, cut=cl.Sum(), recipe=recipe, keep="all")
    kinds = cl.Kind.EMBEDDING, cl.Kind.GRADIENT
    view = run.view("bank")
    seen = [view.channel(kind, cl.Phase.TRAIN, peer="shop").read()[1] for kind in kinds]
    assert all(len(values) == 3 * ROWS and values.dtype == torch.float64 for values in seen)
    return torch.cat(seen)


@pytest.fixture
def turn():
    turned, _ = torch.linalg.qr(torch.randn(COLUMNS, COLUMNS, generator=rng(4), dtype=torch.float64))
    return turned


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_turned_columns_send_the_same_messages_under_sgd(turn, momentum):
    plain, turned = (messages(cl.Optimiser.SGD, momentum, u) for u in (torch.eye(COLUMNS).double(), turn))
    torch.testing.assert_close(turned, plain, rtol=1e-9, atol=1e-12)
    assert plain[: len(plain) // 2].std() > 0.1


def test_adam_tells_turned_columns_apart(turn):
    """The paper's Remark 2 says otherwise; but Adam scales each coordinate on its own, and turning mixes them."""
    plain, turned = (messages(cl.Optimiser.ADAM, 0.0, u) for u in (torch.eye(COLUMNS).double(), turn))
    torch.testing.assert_close(turned[:16], plain[:16], rtol=1e-9, atol=1e-12)  # the first batch, before any step
    assert (turned - plain).abs().max() > 1e-2
