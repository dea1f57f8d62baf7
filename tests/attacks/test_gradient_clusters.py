"""Gradient clusters: directions tell classes, with few labels or none; noise that drowns them does not."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import cutlayer as cl
from cutlayer.attacks.gradient_clusters import RIDGE, Epoch, GradientClusters, _fits, directions, fit
from cutlayer.auditing.attacking import attack_run


def toy(rows=600, classes=3, width=8, noise=0.05, seed=0):
    """Gradients J^T (p - e_y) of a random Jacobian, and the labels."""
    rng = np.random.default_rng(seed)
    jacobian = rng.normal(size=(classes, width))
    labels = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    gradients = (p - np.eye(classes)[labels]) @ jacobian
    return gradients + noise * rng.normal(size=gradients.shape), labels


def label_prior(labels, classes, known):
    prior = np.full((len(labels), classes), -np.log(classes))
    prior[:known] = -30.0
    prior[np.arange(known), labels[:known]] = 0.0
    return prior


def test_a_handful_of_labels_is_enough():
    gradients, labels = toy()
    scores = fit([Epoch(directions(gradients), np.arange(600))], label_prior(labels, 3, 9), seed=0)
    assert (scores.argmax(axis=1) == labels).mean() > 0.97
    assert np.allclose(np.exp(scores).sum(axis=1), 1)


def test_without_labels_rows_are_sorted_all_the_same():
    gradients, labels = toy()
    scores = fit([Epoch(directions(gradients), np.arange(600))], label_prior(labels, 3, 0), seed=0).argmax(axis=1)
    table = np.array([[((scores == c) & (labels == y)).sum() for y in range(3)] for c in range(3)])
    assert table.max(axis=1).sum() > 0.9 * 600


def test_densities_are_those_of_a_normal_distribution_with_the_pooled_covariance():
    gradients, _ = toy(rows=300)
    points, belief = directions(gradients), np.random.default_rng(0).dirichlet(np.ones(3), size=300)
    mass = belief.sum(axis=0)
    centres = belief.T @ points / mass[:, None]
    spread = sum((belief[:, c, None] * (points - centres[c])).T @ (points - centres[c]) for c in range(3)) / 300
    spread += RIDGE * np.trace(spread) / len(spread) * np.eye(len(spread))
    wanted = np.stack([multivariate_normal(centre, spread).logpdf(points) for centre in centres], axis=1)
    constant = -0.5 * points.shape[1] * np.log(2 * np.pi)
    assert _fits(points, belief) + constant == pytest.approx(wanted, rel=1e-6)


def test_several_messages_of_a_row_add_up():
    rng = np.random.default_rng(1)
    clean, labels = toy(noise=0.0)
    epochs = [Epoch(directions(clean + 0.8 * rng.normal(size=clean.shape)), np.arange(600)) for _ in range(6)]
    once, often = (fit(epochs[:n], label_prior(labels, 3, 60), seed=0).argmax(axis=1) == labels for n in (1, 6))
    assert often.mean() > once.mean() + 0.05


def test_directions_may_turn_between_epochs():
    """The second epoch's Jacobian is another: pooled, the two would blur each other."""
    (first, labels), (_, _) = toy(seed=0, noise=0.5), toy(seed=1)
    turned = first @ np.linalg.qr(np.random.default_rng(3).normal(size=(8, 8)))[0]
    epochs = [Epoch(directions(sent), np.arange(600)) for sent in (first, turned)]
    scores = fit(epochs, label_prior(labels, 3, 30), seed=0)
    assert (scores.argmax(axis=1) == labels).mean() > 0.9


def test_noise_that_drowns_directions_leaves_the_prior():
    gradients, labels = toy(noise=100.0)
    scores = fit([Epoch(directions(gradients), np.arange(600))], label_prior(labels, 3, 9), seed=0)
    assert (scores.argmax(axis=1) == labels)[9:].mean() < 0.45


@pytest.mark.parametrize("gradients", [np.zeros((50, 4)), np.full((50, 4), 1e-30), np.ones((2, 4))])
def test_nothing_to_see_is_no_error(gradients):
    scores = fit(
        [Epoch(directions(gradients), np.arange(len(gradients)))],
        label_prior(np.zeros(len(gradients), int), 3, 0),
        seed=0,
    )
    assert np.isfinite(scores).all()


def test_on_a_real_run_it_beats_own_columns_and_stops_at_noise():
    task = cl.data.digits(parties=2)
    recipe = cl.Recipe(epochs=3, batch_size=64)
    (finding,) = attack_run(cl.train(task, recipe=recipe), [GradientClusters(labels=40)])
    assert finding.value > finding.baseline + 0.15, finding
    noise = cl.defences.GaussianNoise(std=10.0, on="gradient")
    hidden = cl.train(task, recipe=recipe, defences=[noise])
    (finding,) = attack_run(hidden, [GradientClusters(labels=40)])
    assert finding.value < finding.baseline + 0.1, finding
