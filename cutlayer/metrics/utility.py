"""How good the model is: accuracy, balanced accuracy, AUC, log loss; MSE and R2 for regression."""

from enum import StrEnum
from math import inf

import numpy as np
import scipy
from numpy.typing import NDArray

from cutlayer.finding import Roc

Array = NDArray[np.number]
Bits = NDArray[np.bool_]


class Utility(StrEnum):
    """What a report judges a model by."""

    ACCURACY = "accuracy"
    R2 = "r2"

    @classmethod
    def bounds_of(cls, name: str) -> tuple[float, float]:
        """What a utility can reach."""
        return (0.0 if name == cls.ACCURACY else -inf, 1.0)

    @classmethod
    def title_of(cls, name: str) -> str:
        """What a plot calls a utility."""
        return "R²" if name == cls.R2 else name


def accuracy(labels: Array, predicted: Array) -> float:
    """Share of rows that are right."""
    return float(np.mean(labels == predicted))


def balanced_accuracy(labels: Array, predicted: Array) -> float:
    """Mean over the classes present of the share of each that is right."""
    return float(np.mean([np.mean(predicted[labels == c] == c) for c in np.unique(labels)]))


def auc(positive: Bits | Array, scores: Array) -> float:
    """Probability that a positive scores above a negative, ties counting half (Mann-Whitney)."""
    hits = positive.astype(np.bool_)
    up, down = int(hits.sum()), int((~hits).sum())
    if not up or not down:
        return float("nan")
    return float((scipy.stats.rankdata(scores)[hits].sum() - up * (up + 1) / 2) / (up * down))


def roc(positive: Bits | Array, scores: Array, points: int = 101) -> Roc:
    """The curve of true against false positives, and how many are found while one in a hundred, or in a
    thousand, is wrongly accused: an average hides the few who are exposed."""
    hits = positive.astype(np.bool_)
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # ties are taken together
    right, wrong = (np.concatenate([[0], np.cumsum(each[order])[last]]) for each in (hits, ~hits))
    tpr, fpr = right / max(1, hits.sum()), wrong / max(1, (~hits).sum())
    grid = np.linspace(0, 1, points)
    hundredth, thousandth = (float(tpr[fpr <= limit].max()) for limit in (0.01, 0.001))
    curve = np.interp(grid, fpr, tpr).round(4).tolist()
    return {"fpr": grid.round(4).tolist(), "tpr": curve, "tpr_at_1": hundredth, "tpr_at_01": thousandth}


def class_auc(labels: Array, logits: Array) -> float:
    """AUC of class 1 for two classes; the mean of one class against the rest for more."""
    if logits.shape[1] == 2:
        return auc(labels == 1, logits[:, 1] - logits[:, 0])
    scores = scipy.special.log_softmax(logits, axis=1)
    return float(np.nanmean([auc(labels == c, scores[:, c]) for c in np.unique(labels)]))


def log_loss(labels: Array, logits: Array) -> float:
    """Mean cross-entropy."""
    return float(-scipy.special.log_softmax(logits.astype(np.float64), axis=1)[np.arange(len(labels)), labels].mean())


def mse(truth: Array, predicted: Array) -> float:
    """Mean squared error."""
    return float(np.mean((truth - predicted) ** 2))


def r2(truth: Array, predicted: Array) -> float:
    """Share of the variance that is explained."""
    spread = float(np.mean((truth - truth.mean()) ** 2))
    return 1 - mse(truth, predicted) / spread if spread else float("nan")


def classification(labels: Array, logits: Array) -> dict[str, float]:
    """All figures for classes."""
    predicted = logits.argmax(axis=1)
    return {
        "accuracy": accuracy(labels, predicted),
        "balanced_accuracy": balanced_accuracy(labels, predicted),
        "auc": class_auc(labels, logits),
        "log_loss": log_loss(labels, logits),
    }


def regression(truth: Array, predicted: Array) -> dict[str, float]:
    """All figures for numbers."""
    return {"mse": mse(truth, predicted), "r2": r2(truth, predicted)}
