"""HashVFL by hand: its loss, its gradient, its bits; what it refuses; and that bits on the wire change nothing."""

from copy import deepcopy
from dataclasses import replace
from math import exp

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import cutlayer as cl
import cutlayer.defences as package
from cutlayer.blocks.codebook import target_codes
from cutlayer.defence import Defence, Place, Role, Setting, Subject
from cutlayer.defences import Hash
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.plan import Plan, assemble
from cutlayer.rng import Stream, generator
from cutlayer.session import batches
from cutlayer.spec import parse
from cutlayer.wire import Encoding
from tests.helpers.hashing import here, train
from tests.helpers.small_task import make_task, top
from tests.helpers.toy import draws, rng

# The loss.


def test_the_penalty_by_hand_on_two_rows():
    """Row 0 has 4 of 4 bits right, cos 1; row 1 has 1 of 4 right, cos -1/2. The mean of 0 and 3/2 is 3/4."""
    codes = target_codes(2, 4, 3)
    sent = codes.clone()
    sent[1, :3] *= -1
    labels = torch.tensor([0, 1])
    assert Hash(bits=4).penalty(sent, here(labels=labels)).item() == pytest.approx(0.75)
    assert Hash(bits=4, reading="code").penalty(sent, here(labels=labels)).item() == pytest.approx(0.75)


def test_the_readings_differ_on_numbers_that_are_no_codes():
    """A code times 2: the cosine does not care, the inner product over d is 2."""
    codes, labels = target_codes(2, 4, 3), torch.tensor([0, 1])
    assert Hash(bits=4).penalty(2 * codes, here(labels=labels)).item() == pytest.approx(0, abs=1e-6)
    assert Hash(bits=4, reading="code").penalty(2 * codes, here(labels=labels)).item() == pytest.approx(-1)


def test_the_penaltys_gradient_by_hand():
    """cos = <h, o> / (|h| sqrt d), so its gradient at a code h is (o - <h, o> h / d) / d, per row a half of it."""
    codes, labels = target_codes(2, 4, 3), torch.tensor([0, 1])
    sent = codes.clone()
    sent[:, 0] *= -1  # <h, o> = 2
    sent.requires_grad_()
    Hash(bits=4).penalty(sent, here(labels=labels)).backward()
    expected = -(codes - 2 * sent.detach() / 4) / 4 / 2
    assert torch.allclose(sent.grad, expected, atol=1e-6)
    sent.grad = None
    Hash(bits=4, reading="code").penalty(sent, here(labels=labels)).backward()
    assert torch.allclose(sent.grad, -codes / 4 / 2)


def test_soft_labels_mix_target_codes():
    codes = target_codes(2, 8, 3)
    soft = torch.tensor([[0.75, 0.25], [0.0, 1.0]])
    expected = 1 - torch.cosine_similarity(codes, torch.stack([0.75 * codes[0] + 0.25 * codes[1], codes[1]])).mean()
    assert Hash(bits=8).penalty(codes, here(labels=soft)).item() == pytest.approx(expected.item(), abs=1e-6)


def test_only_the_label_party_adds_it_and_only_if_asked():
    codes, labels = target_codes(2, 4, 3), torch.tensor([0, 1])
    assert Hash(bits=4).penalty(codes, here()) is None
    assert Hash(bits=4, consistency=False).penalty(codes, here(labels=labels)) is None


def test_the_whole_loss_and_what_goes_back_by_hand():
    """L = CE + mean over the parties of the mean over rows of 1 - <h, o>/d, with weight 1; dL/dh is sent."""
    task = make_task(3, "server")
    session = assemble(task, Plan(top=top, defences=(Hash(bits=4),), seed=3), lambda message: None)
    label, rows = session.label_party, task.train[:2]
    label.top = label.top.eval()  # its dropout and batch norm are another matter
    before = {k: v.clone() for k, v in label.top.state_dict().items()}
    batch = Batch(0, Phase.TRAIN, rows)
    codes = {n: 2.0 * torch.randint(0, 2, (2, 4), generator=rng(i)) - 1 for i, n in enumerate(task.features)}
    talk, answers = label.talk(batch), []
    next(talk)
    for name, code in codes.items():
        answer = talk.send(Message(batch, name, "server", Kind.EMBEDDING, code))
    with pytest.raises(StopIteration) as end:
        while True:
            answers.append(answer)
            answer = next(talk)
    leaves = {name: code.clone().requires_grad_() for name, code in codes.items()}
    label.top.load_state_dict(before)
    joint, wanted = torch.cat(list(leaves.values()), dim=1), target_codes(3, 4, 3)[task.labels[rows]]
    apart = sum((1 - torch.cosine_similarity(h, wanted)).mean() for h in leaves.values()) / 3
    by_count = sum(1 - (h * wanted).sum() / (2 * 4) for h in codes.values()) / 3
    loss = cross_entropy(label.top(joint), task.labels[rows]) + apart
    loss.backward()
    assert apart.item() == pytest.approx(by_count.item(), abs=1e-6)
    assert end.value.value.item() == pytest.approx(loss.item(), abs=1e-6)
    for answer in answers:
        assert torch.allclose(answer.payload, leaves[answer.receiver].grad, atol=1e-6)
    assert [a.receiver for a in answers] == ["p0", "p1", "p2"]


# The gradient: through Sign as it is, then through batch norm.


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        return 2.0 * (values >= 0).float() - 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@pytest.mark.parametrize("own", [False, True])
def test_training_is_that_of_one_graph_built_by_hand(own):
    """Bottom, nn.BatchNorm1d, Sign, top, CE plus cosine, six steps of SGD: the same models come out."""
    task = make_task(3, "p0" if own else "server")
    with Stream(1, "bottoms").scope():
        plain = [nn.Sequential(nn.Linear(4 + i, 8), nn.ReLU(), nn.Linear(8, 5)) for i in range(3)]
    plan = Plan(
        bottoms={f"p{i}": plain[i] for i in range(3)},
        defences=(Hash(bits=5),),
        recipe=cl.Recipe(epochs=2, batch_size=40, optimiser=cl.Optimiser.SGD, lr=0.1),
    )
    session, run = assemble(task, plan, lambda message: None), cl.training.train_plan(task, plan)
    sent = list(task.feature_parties)
    bottoms = {f"p{i}": nn.Sequential(plain[i], nn.BatchNorm1d(5)) for i in range(3)}
    head = deepcopy(session.label_party.top)
    parameters = [p for module in [*bottoms.values(), head] for p in module.parameters()]
    optimizer, codes = torch.optim.SGD(parameters, lr=0.1, momentum=0.9), target_codes(3, 5, 0)
    for epoch in range(2):
        order = task.train[torch.randperm(120, generator=generator(0, "order", epoch))]
        for rows in batches(order, 40):
            embeddings = {n: bottoms[n](task.features[n].values[rows]) for n in task.features}
            hashed = {n: StraightThrough.apply(v) if n in sent else v for n, v in embeddings.items()}
            loss = cross_entropy(head(torch.cat(list(hashed.values()), dim=1)), task.labels[rows])
            apart = [1 - torch.cosine_similarity(hashed[n], codes[task.labels[rows]]) for n in sent]
            loss = loss + torch.stack(apart).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for name, module in bottoms.items():
        theirs = run.session.parties[name].modules["bottom"].state_dict()
        for mine, other in zip(module.state_dict().values(), theirs.values(), strict=True):
            assert torch.allclose(mine, other, atol=1e-5), name
        assert not torch.equal(module[0][0].weight, session.parties[name].modules["bottom"][0][0].weight)


def test_batch_norm_is_not_bypassed():
    run = train(None, Hash(bits=4))
    norm = run.session.parties["p1"].modules["bottom"][1]
    assert norm.running_mean.abs().sum() > 0 and not torch.equal(norm.weight, torch.ones(4))
    assert (norm.eps, norm.momentum, norm.affine) == (1e-5, 0.1, True)


def test_prediction_uses_running_statistics():
    run = train(None, Hash(bits=4))
    party = run.session.parties["p1"]
    inner, norm = party.modules["bottom"]
    rows = run.task.test
    with torch.no_grad():
        values = inner.eval()(run.task.features["p1"].values[rows])
    shifted = (values - norm.running_mean) / (norm.running_var + 1e-5).sqrt() * norm.weight + norm.bias
    _, sent, _ = run.view("p1").channel(Kind.EMBEDDING, Phase.PREDICT).read()
    assert torch.equal(sent, torch.where(shifted >= 0, 1.0, -1.0))
    assert torch.allclose(run.predict(rows)[:1], run.predict(rows[:1]), atol=1e-6)  # no row depends on the others


# What is sent.


@pytest.mark.parametrize(("classes", "bits"), [(2, 1), (3, 2), (10, 4), (100, 7)])
def test_as_many_bits_as_the_classes_need(classes, bits):
    assert Hash().width(16, classes) == bits and Hash(bits=32).width(16, classes) == 32


def test_every_bottom_ends_in_batch_norm_and_tops_do_not():
    for role in Role:
        setting = Setting("p", role, Subject.BOTTOM, 3, draws(), 0)
        hashed = Hash().model(nn.Linear(3, 2), setting)
        assert isinstance(hashed[1], nn.BatchNorm1d) and hashed[1].num_features == 2
        for part, defence in ((Subject.TOP, Hash()), (Subject.BOTTOM, Hash(normalise=False))):
            model = nn.Linear(3, 2)
            assert defence.model(model, replace(setting, subject=part)) is model


def test_zero_is_sent_as_plus_one_and_gradients_as_they_are():
    values = torch.tensor([[0.0, -0.0, 2.0, -0.1]])
    assert Hash().protect(values, here()).tolist() == [[1, 1, 1, -1]]
    for place in (Place.GRADIENT, Place.LOGITS):
        assert Hash().protect(values, here(place)) is values


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_epsilon_flips_bits_in_training_and_prediction(epsilon):
    values = torch.full((500_000, 2), -0.3)
    for during in (True, False):
        sent = Hash(epsilon=epsilon).protect(values, here(training=during))
        assert (sent.abs() == 1).all()
        assert (sent > 0).double().mean().item() == pytest.approx(exp(-epsilon / 2) / 2, abs=0.002)


def test_epsilon_as_the_published_code_has_it_sends_noisy_numbers():
    values = torch.full((500_000, 2), -0.3)
    defence = Hash(epsilon=2.0, reading="code")
    sent = defence.protect(values, here())
    assert sent.mean().item() == pytest.approx(-1, abs=0.01)
    assert sent.var().item() == pytest.approx(2, rel=0.02)  # of Lap(2/2), twice the square of its scale
    assert defence.encoding(Place.EMBEDDING) is None and Hash(epsilon=2.0).encoding(Place.EMBEDDING) is Encoding.BITS


def test_noise_does_not_disturb_the_gradient():
    for reading in ("paper", "code"):
        values = torch.tensor([[0.5, -2.0]], requires_grad=True)
        Hash(epsilon=1.0, reading=reading).protect(values, here()).backward(torch.tensor([[3.0, 4.0]]))
        assert values.grad.tolist() == [[3, 4]]


def test_train_on_embeddings_hashes_in_prediction_only():
    values, defence = torch.tensor([[0.5, -2.0]]), Hash(train_on="embeddings")
    assert defence.protect(values, here()) is values
    assert defence.protect(values, here(training=False)).tolist() == [[1, -1]]
    run = train(None, Hash(bits=4, train_on="embeddings"))
    _, sent, _ = run.transcript.channels["p1", "p0", Kind.EMBEDDING, Phase.TRAIN].read()
    assert (sent.abs() != 1).any()
    _, sent, _ = run.view("p1").channel(Kind.EMBEDDING, Phase.PREDICT).read()
    assert (sent.abs() == 1).all()


def test_without_sign_batch_norm_is_left():
    run = train(None, Hash(bits=4, sign=False, consistency=False))
    _, sent, _ = run.transcript.channels["p1", "p0", Kind.EMBEDDING, Phase.TRAIN].read()
    first = sent[:32]
    assert (first.abs() != 1).all() and first.mean(dim=0).abs().max() < 0.3
    assert Hash(sign=False).encoding(Place.EMBEDDING) is None
    assert Hash(sign=False, bits=1, consistency=False).width(16, 10) == 1  # one number may tell ten classes


# What it refuses, in one sentence each.


@pytest.mark.parametrize(
    "wrong",
    [
        {"bits": 0},
        {"epsilon": 0},
        {"epsilon": -1},
        {"targets": "seven"},
        {"reading": "mine"},
        {"train_on": "labels"},
        {"gradients": "int8"},
        {"sign": False, "epsilon": 1.0},
    ],
)
def test_settings_are_checked(wrong):
    with pytest.raises(cl.ConfigError):
        Hash(**wrong)


def test_spelling():
    for text in ("hash", "hash:bits=16,targets=private", "hash:targets=7", "hash:sign=False", "hash:epsilon=2.0"):
        assert parse(text, package, Defence, "defence").describe() == text
