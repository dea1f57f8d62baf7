from math import exp

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.defence import Role, Setting, Subject
from cutlayer.defences import LabelDP
from cutlayer.defences.label_dp import noisy_frequencies, randomised_response, rr_with_prior
from cutlayer.errors import ConfigError
from cutlayer.spec import parse
from tests.helpers.class_shares import class_shares
from tests.helpers.toy import draws, rng


def setting(classes=3, role=Role.LABEL_PARTY, seed=0):
    return Setting(party="bank", role=role, subject=Subject.LABELS, classes=classes, rng=draws(seed), shared_seed=0)


def exact(label, prior, epsilon):
    """The paper's RRWithPrior, one label, as probabilities."""
    order = sorted(range(len(prior)), key=lambda c: -prior[c])
    keep = [exp(epsilon) / (exp(epsilon) + k - 1) for k in range(1, len(prior) + 1)]
    chance = [keep[k - 1] * sum(prior[c] for c in order[:k]) for k in range(1, len(prior) + 1)]
    k = max(range(len(prior)), key=lambda i: chance[i]) + 1
    top = order[:k]
    if label not in top:
        return [1 / k if c in top else 0.0 for c in range(len(prior))]
    other = (1 - keep[k - 1]) / (k - 1) if k > 1 else 0.0
    return [keep[k - 1] if c == label else (other if c in top else 0.0) for c in range(len(prior))]


def test_randomised_response_keeps_at_the_papers_rate():
    epsilon = 1.0
    answers = randomised_response(torch.full((200_000,), 2), 4, epsilon, draws())
    keep = exp(1) / (exp(1) + 3)  # 0.4754
    assert class_shares(answers, 4) == pytest.approx([(1 - keep) / 3] * 2 + [keep, (1 - keep) / 3], abs=0.004)


def test_two_classes_at_epsilon_one_keep_73_percent():
    labels = torch.randint(2, (200_000,), generator=rng(1))
    drawn = LabelDP().labels(labels, setting(2))
    assert (drawn == labels).double().mean().item() == pytest.approx(0.7311, abs=0.004)


def test_k_star_by_hand():
    """eps = ln 3: k=1 scores 0.6, k=2 scores 3/4 * 0.95 = 0.7125, k=3 scores 3/5: so k* = 2."""
    epsilon, prior = 1.0986123, torch.tensor([[0.05, 0.6, 0.35]])
    labels = torch.tensor([0, 1, 2]).repeat_interleave(100_000)
    answers = rr_with_prior(labels, prior, epsilon, draws()).view(3, -1)
    assert class_shares(answers[0], 3) == pytest.approx([0, 0.5, 0.5], abs=0.005)  # outside: even over the two
    assert class_shares(answers[1], 3) == pytest.approx([0, 0.75, 0.25], abs=0.005)
    assert class_shares(answers[2], 3) == pytest.approx([0, 0.25, 0.75], abs=0.005)


def test_a_sure_prior_answers_for_everyone():
    answers = rr_with_prior(torch.tensor([0, 1, 2, 1]), torch.tensor([[0.0, 1.0, 0.0]]), 0.5, draws())
    assert answers.tolist() == [1, 1, 1, 1]


def test_every_row_may_have_its_own_prior():
    priors = torch.eye(4)[torch.tensor([3, 0, 2, 2])]
    assert rr_with_prior(torch.tensor([0, 1, 2, 3]), priors, 0.5, draws()).tolist() == [3, 0, 2, 2]


def test_an_even_prior_is_plain_randomised_response():
    labels = torch.randint(5, (1000,), generator=rng(1))
    even = rr_with_prior(labels, torch.full((1, 5), 0.2), 1.0, draws())
    assert torch.equal(even, randomised_response(labels, 5, 1.0, draws()))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=2, max_size=5), st.floats(0.2, 4))
def test_answers_follow_the_formula_and_no_two_labels_differ_by_more_than_epsilon(weights, epsilon):
    prior = [w / sum(weights) + 1e-4 * i for i, w in enumerate(weights)]  # no ties
    classes, count = len(prior), 40_000
    labels = torch.arange(classes).repeat_interleave(count)
    answers = rr_with_prior(labels, torch.tensor([prior], dtype=torch.float64), epsilon, draws()).view(classes, -1)
    table = [exact(label, prior, epsilon) for label in range(classes)]
    for label in range(classes):
        assert class_shares(answers[label], classes) == pytest.approx(table[label], abs=0.015)
    for column in zip(*table, strict=True):
        assert max(column) <= exp(epsilon) * min(column) + 1e-12


def test_without_a_prior_a_tenth_of_epsilon_buys_noisy_frequencies():
    labels = torch.cat([torch.zeros(9000), torch.ones(900), torch.full((100,), 2)]).long()
    frequencies = noisy_frequencies(labels, 3, 0.1, draws())
    assert frequencies.tolist() == pytest.approx([0.9, 0.09, 0.01], abs=0.02)
    assert float(frequencies.sum()) == pytest.approx(1) and frequencies.min() >= 0
    drawn = LabelDP(epsilon=1.0, mode="rr-with-prior").labels(labels, setting())
    same = draws()
    expected = rr_with_prior(labels, noisy_frequencies(labels, 3, 0.1, same)[None], 0.9, same)
    assert torch.equal(drawn, expected)


def test_the_noise_on_counts_is_laplace_of_scale_two_over_epsilon():
    labels = torch.zeros(5_000, dtype=torch.int64)
    labels[::2] = 1
    counts = torch.stack([noisy_frequencies(labels, 2, 1.0, draws(s)) for s in range(3000)]) * len(labels)
    noise = counts[:, 0] - counts[:, 1]  # the difference of two Laplace of whole numbers: variance about 2 * 2 * 2^2
    assert noise.mean().item() == pytest.approx(0, abs=0.25) and noise.var().item() == pytest.approx(16, rel=0.15)


def test_a_given_prior_uses_all_of_epsilon():
    labels = torch.randint(3, (500,), generator=rng(1))
    drawn = LabelDP(epsilon=2.0, mode="rr-with-prior", prior=(5, 3, 2)).labels(labels, setting())
    assert torch.equal(drawn, rr_with_prior(labels, torch.tensor([[5.0, 3.0, 2.0]]), 2.0, draws()))


def test_only_the_label_party_draws():
    labels, here = torch.tensor([0, 1, 2]), setting(role=Role.FEATURE_PARTY)
    before = here.rng.state
    assert LabelDP().labels(labels, here) is labels and torch.equal(here.rng.state, before)


def test_large_epsilon_keeps_every_label():
    labels = torch.randint(3, (1000,), generator=rng(1))
    for mode in ("rr", "rr-with-prior"):
        assert torch.equal(LabelDP(epsilon=1e6, mode=mode).labels(labels, setting()), labels)


def test_what_it_refuses():
    with pytest.raises(ConfigError, match="regression"):
        LabelDP().labels(torch.rand(3), setting(classes=0))
    with pytest.raises(ConfigError, match="class numbers"):
        LabelDP().labels(torch.rand(3, 3), setting())
    with pytest.raises(ConfigError, match="over 3 classes"):
        LabelDP(mode="rr-with-prior", prior=(0.5, 0.5)).labels(torch.tensor([0]), setting())
    for wrong in (
        {"epsilon": 0},
        {"mode": "lp"},
        {"prior": (1.0,)},
        {"mode": "rr-with-prior", "prior": (0.0, 0.0)},
        {"stages": 0},
        {"stages": 2, "mode": "rr-with-prior"},
        {"stages": 2, "first": 0},
        {"stages": 2, "share": 0.0},
        {"stages": 2, "share": 1.0},
        {"stages": 2, "temperature": 0.0},
    ):
        with pytest.raises(ConfigError):
            LabelDP(**wrong)


def test_spelling():
    import cutlayer.defences as package
    from cutlayer.defence import Defence

    for text in (
        "label-dp:epsilon=2.0,mode=rr-with-prior,prior=0.5-0.3-0.2",
        "label-dp:stages=3,first=5,share=0.8,temperature=0.6",
    ):
        assert parse(text, package, Defence, "defence").describe() == text
