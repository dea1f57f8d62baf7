"""Greedy hash by hand, and why the published variant's penalty does nothing."""

import pytest
import torch
from torch import nn

import cutlayer as cl
import cutlayer.defences as package
from cutlayer.attacks.tools.shared_codes import shared_codes
from cutlayer.blocks.sign import sign
from cutlayer.data.task import Goal
from cutlayer.defence import Defence, Place
from cutlayer.defences import GreedyHash
from cutlayer.message import Kind, Phase
from cutlayer.plan import Plan, assemble
from cutlayer.spec import parse
from cutlayer.wire import Encoding
from tests.helpers.hashing import RECIPE, Rogue, easy_task, here, train
from tests.helpers.small_task import make_task


def test_the_penalty_by_hand():
    """| |v| - 1 |^3 of 1.5, -3, 0 and -0.5 is 1/8, 8, 1 and 1/8: their mean is 37/16, a tenth of it is added."""
    values = torch.tensor([[1.5, -3.0], [0.0, -0.5]])
    assert GreedyHash().penalty(values, here()).item() == pytest.approx(0.1 * 37 / 16)
    assert GreedyHash(weight=2.0).penalty(values, here()).item() == pytest.approx(2 * 37 / 16)


def test_the_penaltys_gradient_by_hand():
    """3 (|v| - 1)^2 sign(|v| - 1) sign(v) / 4, times the weight."""
    values = torch.tensor([[1.5, -3.0], [0.5, -0.5]], requires_grad=True)
    GreedyHash(weight=1.0).penalty(values, here()).backward()
    assert values.grad.flatten().tolist() == pytest.approx([0.1875, -3.0, -0.1875, 0.1875])


def test_only_the_feature_party_adds_it():
    values = torch.tensor([[1.5, -3.0], [0.0, -0.5]])
    assert GreedyHash().penalty(values, here(labels=torch.tensor([0, 1]))) is None
    assert GreedyHash(reading="code").penalty(values, here()) is None


@pytest.mark.parametrize("seed", range(3))
def test_the_published_penaltys_gradient_is_exactly_zero(seed):
    """|v - h|_3 with the code in the graph: the gradient through v is cancelled by the one through h."""
    values = (3 * torch.randn(16, 4, generator=torch.Generator().manual_seed(seed))).requires_grad_()
    apart = torch.linalg.vector_norm(values - sign(values), ord=3)
    apart.backward()
    assert apart > 1 and not values.grad.any()
    values.grad = None
    torch.linalg.vector_norm(values - sign(values).detach(), ord=3).backward()
    assert values.grad.all()  # with the code cut off from the graph it would have been a penalty


def test_the_published_reading_is_sign_alone():
    code = train(None, GreedyHash(bits=4, reading="code")).to_json()["models"]
    nothing = train(None, GreedyHash(bits=4, weight=0.0)).to_json()["models"]
    paper = train(None, GreedyHash(bits=4)).to_json()["models"]
    assert code == nothing and code["p1.bottom"] != paper["p1.bottom"]


def test_what_is_sent():
    values = torch.tensor([[0.0, -0.2, 7.0]], requires_grad=True)
    sent = GreedyHash().protect(values, here())
    sent.backward(torch.tensor([[1.0, 2.0, 3.0]]))
    assert sent.tolist() == [[1, -1, 1]] and values.grad.tolist() == [[1, 2, 3]]
    assert GreedyHash().protect(values, here(Place.GRADIENT)) is values
    assert GreedyHash().encoding(Place.EMBEDDING) is Encoding.BITS
    assert GreedyHash().encoding(Place.GRADIENT) is None


def test_no_batch_norm_and_no_target_codes():
    run = train(easy_task(), GreedyHash(bits=4), bottoms=lambda f, width: nn.Linear(4, width))
    assert type(run.session.parties["p1"].modules["bottom"]) is nn.Linear
    assert shared_codes(run.manifest()) is None
    _, sent, _ = run.transcript.channels["p1", "p0", Kind.EMBEDDING, Phase.TRAIN].read()
    assert sent.shape[1] == 4 and (sent.abs() == 1).all()


def test_it_learns():
    recipe = cl.Recipe(epochs=15, batch_size=32, lr=0.01)
    assert cl.train(easy_task(), defences=[GreedyHash(bits=6)], recipe=recipe).metrics["accuracy"] > 0.8


def test_what_it_refuses():
    with pytest.raises(cl.ConfigError, match="regression task; leave greedy-hash out"):
        train(make_task(2, "p0", Goal.REGRESSION), GreedyHash())
    with pytest.raises(cl.ProtocolError, match=r"Expected codes of 4 bits from p1, got shape \(5,\)"):
        train(make_task(2, "p0"), GreedyHash(bits=4), bottoms={f"p{i}": nn.Linear(4 + i, 5) for i in range(2)})
    task = make_task(2, "p0")
    session = assemble(task, Plan(defences=(GreedyHash(bits=4),), recipe=RECIPE), lambda message: None)
    session.parties["p1"] = Rogue(session.parties["p1"], lambda rows: torch.full((rows, 4), 0.5))
    with pytest.raises(cl.ProtocolError, match=r"codes of \+1 and -1 from p1"):
        session.train_epoch(0, task.train)
    for wrong in ({"bits": 0}, {"weight": -1}, {"reading": "mine"}):
        with pytest.raises(cl.ConfigError):
            GreedyHash(**wrong)


def test_spelling():
    text = "greedy-hash:bits=8,weight=0.5,reading=code"
    assert parse(text, package, Defence, "defence").describe() == text
