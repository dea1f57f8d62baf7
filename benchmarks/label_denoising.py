"""Denoising: what an attacker's own columns and its guesses say together about labels; a yardstick, not an attack."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from cutlayer.attack import Guess
from cutlayer.data.task import Task

MANY = 100  # columns from which on only trees are trained, for speed


def denoised(task: Task, guess: Guess, known: Tensor) -> float:
    """How often own columns and guesses together are right, at the best weight of the guess."""
    values = task.features[task.feature_parties[0]].values.index_select(0, guess.rows)
    own, truth = values.to_dense().flatten(1).numpy(), task.labels[guess.rows].numpy()
    guessed, fresh = guess.values.numpy(), ~torch.isin(guess.rows, known).numpy()
    if len(np.unique(guessed)) < 2:
        return 0.0
    scores = []
    for learner in (_trees, _line) if own.shape[1] < MANY else (_trees,):
        chance = np.log(out_of_fold(learner, own, guessed, len(task.classes)) + 1e-3)
        votes = np.eye(len(task.classes))[guessed]
        scores += [((chance + w * votes).argmax(axis=1) == truth)[fresh].mean() for w in (0, 0.5, 1, 2, 3)]
    return float(max(scores))


def out_of_fold(learner: Callable[[], Any], own: NDArray[Any], guessed: NDArray[Any], classes: int) -> NDArray[Any]:
    """Chances of every class for every row, from a learner that did not see the row."""
    chances = np.zeros((len(guessed), classes))
    for used, rest in KFold(3, shuffle=True, random_state=0).split(own):
        model = learner().fit(own[used], guessed[used])
        chances[np.ix_(rest, model.classes_)] = model.predict_proba(own[rest])
    return chances


def _trees() -> Any:
    return ExtraTreesClassifier(100, min_samples_leaf=5, random_state=0, n_jobs=1)


def _line() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=200))
