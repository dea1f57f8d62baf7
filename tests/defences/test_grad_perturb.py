"""GradPerturb: one backward pass is as good as one per class."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

import cutlayer as cl
from cutlayer.blocks.sign import laplace_like
from cutlayer.data.task import Goal
from cutlayer.defence import Course, Local, Place, Role, Setting, Subject
from cutlayer.defences import GradPerturb
from cutlayer.errors import ConfigError
from cutlayer.message import Kind
from cutlayer.spec import parse
from tests.helpers.small_task import make_task
from tests.helpers.toy import draws, rng

ROWS, WIDTH, CLASSES = 5, 4, 3


def batch(seed=0, normalised=False):
    """A small top, embeddings, and what a label party would tell the defence about them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        middle = nn.BatchNorm1d(6) if normalised else nn.Identity()
        top = nn.Sequential(nn.Linear(WIDTH, 6), middle, nn.Tanh(), nn.Linear(6, CLASSES)).double()
        embedding = torch.randn(ROWS, WIDTH, dtype=torch.float64, requires_grad=True)
        labels = torch.randint(CLASSES, (ROWS,))
    outputs = top(embedding)

    def retrace(gradient):
        return torch.autograd.grad(outputs, embedding, gradient, retain_graph=True)[0]

    here = Local(
        Place.GRADIENT, draws(seed), True, torch.arange(ROWS), labels=labels, retrace=retrace, outputs=outputs.detach()
    )
    return top, embedding, labels, here


def gradient(top, embedding, labels):
    return torch.autograd.grad(cross_entropy(top(embedding), labels), embedding)[0]


@given(st.integers(0, 99), st.floats(0.1, 10))
def test_it_equals_one_backward_pass_per_class(seed, epsilon):
    top, embedding, labels, here = batch(seed)
    noise = laplace_like(here.outputs, 2 / epsilon, draws(seed))
    expected = clean = gradient(top, embedding, labels)
    for c in range(CLASSES):
        expected = expected + noise[:, c, None] * gradient(top, embedding, torch.full_like(labels, c))
    sent = GradPerturb(epsilon=epsilon).protect(clean, here)
    assert torch.allclose(sent, expected, atol=1e-12) and not torch.allclose(sent, clean)


def test_with_batch_norm_it_is_the_gradient_of_noisy_labels_all_together():
    """What is sent of the labels is e_y + u, and nothing else, also where rows depend on each other."""
    top, embedding, labels, here = batch(3, normalised=True)
    noise = laplace_like(here.outputs, 2.0, draws(3))
    weights = nn.functional.one_hot(labels, CLASSES) + noise  # of any sum: cross-entropy is linear in them
    loss = -(weights * top(embedding).log_softmax(dim=1)).sum() / ROWS
    expected = torch.autograd.grad(loss, embedding)[0]
    sent = GradPerturb(epsilon=1.0).protect(gradient(top, embedding, labels), here)
    assert torch.allclose(sent, expected, atol=1e-12)


def test_soft_labels_are_blurred_by_the_same_noise():
    top, embedding, labels, here = batch(4)
    soft = torch.rand(ROWS, CLASSES, generator=rng(1), dtype=torch.float64).softmax(dim=1)
    hard = gradient(top, embedding, labels)
    clean = gradient(top, embedding, soft)
    sent = GradPerturb().protect(clean, here)
    again = GradPerturb().protect(hard, batch(4)[3])
    assert torch.allclose(sent - clean, again - hard)


def test_noise_is_laplace_of_scale_two_over_epsilon():
    outputs = torch.zeros(60_000, 2, dtype=torch.float64)  # p is even, so the noise is (u0 + u1) / 2 - u
    here = Local(Place.GRADIENT, draws(), True, torch.arange(1), retrace=lambda g: g, outputs=outputs)
    sent = GradPerturb(epsilon=4.0).protect(torch.zeros_like(outputs), here) * len(outputs)
    assert torch.allclose(sent[:, 0], -sent[:, 1])  # (u1 - u0) / 2, of variance 2 * 2 * 0.5^2 / 4
    assert sent[:, 0].mean().item() == pytest.approx(0, abs=0.01)
    assert sent[:, 0].var().item() == pytest.approx(0.25, rel=0.03)
    assert sent[:, 0].pow(4).mean().item() == pytest.approx(4.5 * 0.25**2, rel=0.1)  # kurtosis 3 + 3 / 2


def test_without_a_way_to_retrace_nothing_is_sent_rather_than_the_truth(local):
    assert not GradPerturb().protect(torch.ones(3, 2), local()).any()
    for place in (Place.EMBEDDING, Place.LOGITS):
        payload = torch.ones(3, 2)
        assert GradPerturb().protect(payload, local(place)) is payload


def test_a_run_at_a_huge_epsilon_is_the_undefended_one_and_at_a_small_one_is_not():
    task = cl.data.digits(parties=2, limit=300)
    sent = []
    for defences in ([], [GradPerturb(epsilon=1e9)], [GradPerturb()]):
        run = cl.train(task, defences=defences, recipe=cl.Recipe(epochs=1, batch_size=32), keep="all")
        sent.append(run.view("party2").channel(Kind.GRADIENT, peer="party2").read()[1])
    assert torch.allclose(sent[0], sent[1], atol=1e-4) and sent[0].abs().max() > 1e-3
    assert sent[2].norm() > 1.5 * sent[0].norm()


def test_a_task_is_learned_all_the_same():
    task = cl.data.breast_cancer(parties=2)
    run = cl.train(task, defences=[GradPerturb(epsilon=2.0)], recipe=cl.Recipe(epochs=3, batch_size=32))
    assert run.metrics["accuracy"] > 0.85


def test_every_feature_party_gets_noise_of_its_own():
    run = cl.train(make_task(3, "p0"), defences=[GradPerturb()], recipe=cl.Recipe(epochs=1, batch_size=32), keep="all")
    first, second = (run.view(name).channel(Kind.GRADIENT, peer=name).read()[1] for name in ("p1", "p2"))
    assert first.isfinite().all() and second.isfinite().all() and not torch.allclose(first, second)


def test_what_the_record_says():
    told = GradPerturb().privacy(Course(rows=9, batch_size=3, epochs=10, feature_parties=3, classes=2))
    assert told.epsilon is None and told.reason == "the top is trained on clean labels"


def test_what_it_refuses_and_its_spelling():
    import cutlayer.defences as package
    from cutlayer.defence import Defence

    with pytest.raises(ConfigError, match="regression"):
        cl.train(
            make_task(2, "p0", Goal.REGRESSION), defences=[GradPerturb()], recipe=cl.Recipe(epochs=1, batch_size=32)
        )
    feature = Setting("p", Role.FEATURE_PARTY, Subject.LABELS, 0, draws(), 0)
    assert GradPerturb().labels(torch.ones(2), feature).tolist() == [1, 1]
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ConfigError, match="epsilon"):
            GradPerturb(epsilon=wrong)
    assert parse("grad-perturb:epsilon=2.0", package, Defence, "defence").describe() == "grad-perturb:epsilon=2.0"
