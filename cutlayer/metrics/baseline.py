"""The best guess without the view: what the attacker's own rows and the same hints give by themselves.

Several ordinary learners are tried and the best on the truth is taken, so that an attack is
never praised for what anyone could have done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

MOST_ROWS = 20_000  # scored rows: enough for three digits


class KnownRows(Protocol):
    """Rows whose truth the attacker was told."""

    @property
    def values(self) -> Tensor:
        """The truth of those rows."""


Baseline = Callable[..., tuple[float, str]]  # how good, and by which learner


def remembered(baseline: Baseline) -> Baseline:
    """Do the same work once: a study asks for the same baseline under every defence."""
    known_results: dict[bytes, tuple[float, str]] = {}

    @wraps(baseline)
    def once(
        inputs: Tensor | None, known_inputs: Tensor | None, known: KnownRows | None, *truth: Tensor | None
    ) -> tuple[float, str]:
        key = _digest(inputs, known_inputs, None if known is None else known.values, *truth)
        if key not in known_results:
            known_results[key] = baseline(inputs, known_inputs, known, *truth)
        return known_results[key]

    return once


def _digest(*parts: Tensor | None) -> bytes:
    total = hashlib.sha256()
    for part in parts:
        shown = np.empty(0) if part is None else np.ascontiguousarray(part.numpy())
        total.update(f"{shown.shape} {shown.dtype} ".encode())
        total.update(shown.data)
    return total.digest()


@remembered
def best_classes(
    inputs: Tensor | None, known_inputs: Tensor | None, known: KnownRows | None, truth: Tensor
) -> tuple[float, str]:
    """Best accuracy of the majority class and, with labelled rows, of three learners on the own columns."""
    labels = truth.numpy()
    guesses = {"majority class": float(np.unique(labels, return_counts=True)[1].max() / len(labels))}
    if inputs is not None and known_inputs is not None and known is not None:
        from sklearn.ensemble import ExtraTreesClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        scored = slice(0, MOST_ROWS)
        x, y = known_inputs.numpy(), known.values.numpy()
        learners: dict[str, Any] = {
            "logistic regression on own columns": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
            "extra trees on own columns": ExtraTreesClassifier(200, random_state=0, n_jobs=1),
            "nearest neighbour on own columns": make_pipeline(StandardScaler(), KNeighborsClassifier(1)),
        }
        if len(np.unique(y)) > 1:
            for name, learner in learners.items():
                right = learner.fit(x, y).predict(inputs[scored].numpy()) == labels[scored]
                guesses[name] = float(np.mean(right))
    name = max(guesses, key=lambda key: guesses[key])
    return guesses[name], name


@remembered
def best_values(
    inputs: Tensor | None,
    known_inputs: Tensor | None,
    known: KnownRows | None,
    truth: Tensor,
    mean: Tensor | None = None,
) -> tuple[float, str]:
    """Least squared error of the mean row and, with known rows, of two learners on the own columns.

    The mean is that of the rows themselves, unless they are too few and it is given.
    """
    flat = truth.flatten(1).double()
    typical = flat.mean(0) if mean is None else mean.flatten().double()
    guesses = {"mean row": float((flat - typical).pow(2).mean())}
    if inputs is not None and known_inputs is not None and known is not None:
        from sklearn.ensemble import ExtraTreesRegressor
        from sklearn.linear_model import RidgeCV

        learners = {
            "ridge regression on own columns": RidgeCV(alphas=np.logspace(-2, 4, 13)),
            "extra trees on own columns": ExtraTreesRegressor(50, random_state=0, n_jobs=1),
        }
        for name, learner in learners.items():
            learner.fit(known_inputs.numpy(), known.values.flatten(1).numpy())
            predicted = learner.predict(inputs[:MOST_ROWS].numpy()).reshape(len(flat[:MOST_ROWS]), -1)
            guesses[name] = float(np.mean((flat[:MOST_ROWS].numpy() - predicted) ** 2))
    name = min(guesses, key=lambda key: guesses[key])
    return guesses[name], name
