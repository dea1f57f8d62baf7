"""Gradient clusters: within one run each class has a direction in the gradients, so they sort the rows by class."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from cutlayer._validate import at_least
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Role
from cutlayer.errors import Inapplicable
from cutlayer.message import Kind
from cutlayer.view import View

Array = NDArray[np.float64]
ROUNDS = 60  # of expectation and maximisation, at most
RIDGE = 1e-3  # of the pooled covariance, relative to its mean variance
SURE = 1e-4  # change of the mean log-likelihood at which it has settled


class Epoch(NamedTuple):
    """The messages of an epoch: their directions, and the place of each message's row."""

    points: Array
    place: NDArray[np.int64]


class GradientClusters(Attack):
    """Read labels off the directions of gradients: a mixture with one component for each class.

    A gradient is J^T (p - e_y), with J the private Jacobian of the top: which direction means which class is
    secret, but it is the same for all rows of a run. So no shadow training is needed. Each row's direction is a
    point; classes are components with a mean of their own and a common covariance. What the attacker's own
    columns and a few known labels say about a row is its prior. Several starts are tried, from that prior and from
    k-means with clusters named by it, and the one with the highest likelihood is kept: the truth plays no part.
    Directions turn as the top learns, so every epoch has components of its own, and the log-likelihoods of a row's
    messages add up. Epochs are the first kept ones, where probabilities are still even and directions clearest.

    Sees: the gradients that the label party sent, in the first `epochs` kept epochs, or all that were kept.
    Needs: `labels` rows with their labels; without any, clusters get numbers in the order of their size.
    Cost: about 1 s for the first epoch of 10,000 rows (results/vflrecon); 2 minutes for ten epochs of MNIST
    (results/fedadob).
    Specification: vflrecon, section 8.
    Paper: ours; after Zhu et al., Vulnerabilities of Data Protection in Vertical Federated Learning Training and
    Countermeasures, whose attack it needs no shadow data for.
    """

    target: ClassVar[Target] = Target.LABELS
    by: ClassVar[Role] = Role.FEATURE_PARTY

    def __init__(self, *, labels: int = 40, epochs: int | None = None) -> None:
        at_least("labels", labels, 0)
        at_least("epochs", 1 if epochs is None else epochs, 1)
        self.labels = labels
        self.epochs = epochs

    @property
    def asks(self) -> Asks:
        """A few labelled rows."""
        return Asks(labels=self.labels)

    def run(self, view: View, rng: Generator) -> Guess:
        """Fit the mixture and take each row's likeliest class."""
        channel = view.channel(Kind.GRADIENT, peer=view.attacker)
        entries = channel.entries
        if entries["count"].sum() == 0:
            raise Inapplicable("no gradients were kept")
        parts = [channel.read(epoch=int(epoch))[:2] for epoch in np.unique(entries["epoch"])[: self.epochs]]
        kept = torch.unique(torch.cat([rows for rows, _ in parts]))
        epochs = [
            Epoch(directions(g.flatten(1).double().numpy()), torch.searchsorted(kept, r).numpy()) for r, g in parts
        ]
        seed = int(torch.randint(2**31, (), generator=rng))
        best = fit(epochs, self._prior(view, kept, seed), seed)
        return Guess(kept, torch.from_numpy(best.argmax(axis=1)), Form.CLASSES)

    def _prior(self, view: View, rows: Tensor, seed: int) -> Array:
        """What own columns and known labels say about each row, as log-probabilities."""
        classes, known = view.manifest.classes, view.hints.labels
        flat = np.full((len(rows), classes), -np.log(classes))
        own = view.own[view.attacker].features
        if known is None or own is None or isinstance(own, SparseRows):
            return flat
        from sklearn.ensemble import ExtraTreesClassifier

        trees = ExtraTreesClassifier(200, random_state=seed, n_jobs=1)
        trees.fit(own[known.rows].flatten(1).numpy(), known.values.numpy())
        chances = np.zeros((len(rows), classes))
        chances[:, trees.classes_] = trees.predict_proba(own[rows].flatten(1).numpy())
        prior: Array = np.log((chances + 0.05) / (1 + 0.05 * classes))
        labels = {int(row): int(value) for row, value in zip(known.rows, known.values, strict=True)}
        for place, row in enumerate(rows.tolist()):
            if row in labels:
                prior[place] = -30.0
                prior[place, labels[row]] = 0.0
        return prior


def directions(gradients: Array) -> Array:
    """Rows of length 1 (0 stays 0), in the coordinates in which they vary."""
    peak = np.abs(gradients).max(axis=1, keepdims=True)
    scaled = gradients / np.where(peak > 0, peak, 1.0)  # or squares of small gradients underflow
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    points = scaled / np.where(length > 0, length, 1.0)
    centred = points - points.mean(axis=0)
    squares, axes = np.linalg.eigh(centred.T @ centred)  # in ascending order; far cheaper than an SVD of all rows
    kept: Array = centred @ axes[:, squares > 1e-12 * max(squares[-1], 1e-300)]
    return kept


def fit(epochs: Sequence[Epoch], prior: Array, seed: int) -> Array:
    """Log-probability of every class for every row, from the likeliest of several starts."""
    classes = prior.shape[1]
    epochs = [epoch for epoch in epochs if epoch.points.shape[1] and len(epoch.points) > classes]
    if not epochs:
        return prior
    belief = np.exp(scipy.special.log_softmax(prior, axis=1))
    ends = (epochs[0], epochs[-1]) if len(epochs) > 1 else epochs
    starts = [belief, *(_sorted(epoch, prior, belief, seed) for epoch in ends)]
    settled = [_settle(epochs, prior, start) for start in starts]
    return max(settled, key=lambda end: end[1])[0]


def _sorted(epoch: Epoch, prior: Array, belief: Array, seed: int) -> Array:
    """Rows by the cluster that an epoch's k-means puts them in, each cluster named by what is believed of its rows."""
    from sklearn.cluster import KMeans

    classes = prior.shape[1]
    hard = np.eye(classes)[KMeans(classes, n_init=4, random_state=seed).fit(epoch.points).labels_]
    _, names = scipy.optimize.linear_sum_assignment(-(hard.T @ belief[epoch.place]))
    if np.allclose(prior, prior[:1]):  # nobody says which is which: by size
        names = np.argsort(np.argsort(-hard.sum(axis=0)))
    start = np.array(belief)
    start[epoch.place] = hard[:, np.argsort(names)]
    return start


def _settle(epochs: Sequence[Epoch], prior: Array, belief: Array) -> tuple[Array, float]:
    """Expectation and maximisation: class means and a pooled covariance per epoch, and each row's posterior."""
    before = now = -np.inf
    posterior = prior
    # Known labels are even over classes, and so is the prior.
    even = np.exp(scipy.special.log_softmax(prior, axis=1)).mean(axis=0)
    for _ in range(ROUNDS):
        joint = prior + np.log(belief.mean(axis=0) + 1e-9) - np.log(even)
        for epoch in epochs:
            np.add.at(joint, epoch.place, _fits(epoch.points, belief[epoch.place]))
        total = scipy.special.logsumexp(joint, axis=1, keepdims=True)
        posterior, now = joint - total, float(total.mean())
        if now - before < SURE * abs(now):
            break
        before, belief = now, np.exp(posterior)
    return posterior, now


def _fits(points: Array, belief: Array) -> Array:
    """Log-density of every point under every class, with means and covariance as the belief has them.

    Points lie along their principal axes, so their covariance is diagonal, and that within classes differs from it by
    as many rank-one terms as there are classes: Woodbury's identity inverts it at the cost of these, not of the axes.
    """
    count, axes = points.shape
    mass = belief.sum(axis=0) + 1e-9
    centres = belief.T @ points / mass[:, None]
    around = centres * np.sqrt(mass / count)[:, None]
    total = np.einsum("ij,ij->j", points, points) / count
    total += RIDGE * ((total.sum() - np.square(around).sum()) / axes + 1e-12)
    core = np.eye(len(mass)) - (around / total) @ around.T
    half = np.linalg.cholesky(np.linalg.inv(core))
    turn = (around / total).T @ half
    far = _apart(points, centres, 1 / total) + _apart(points @ turn, centres @ turn, np.ones(len(mass)))
    densities: Array = -0.5 * (far + np.log(total).sum()) + np.log(np.diag(half)).sum()
    return densities


def _apart(points: Array, centres: Array, weights: Array) -> Array:
    """Weighted squared distance of every point to every centre."""
    own, theirs = np.einsum("ij,ij,j->i", points, points, weights), np.square(centres) @ weights
    apart: Array = own[:, None] + theirs - 2 * points @ (centres * weights).T
    return apart
