"""What own columns alone say, to learners taught the same shadow rows: VFLRecon's baseline, and stronger ones."""

import numpy as np
import torch
from torch import Tensor

from cutlayer.attacks.tools.practice import Reader
from cutlayer.attacks.tools.records import Records
from cutlayer.auditing.rehearsal import shadow_of
from cutlayer.blocks.sparse import SparseRows
from cutlayer.errors import ConfigError
from cutlayer.metrics.columns import correlations
from cutlayer.rng import Stream
from cutlayer.run import Run

SHADOW, ROUNDS, RATE = 1000, 50, 1e-3


def baselines(run: Run) -> dict[str, float]:
    """Accuracy (in percent) of labels and squared error of the first other party's columns, by learner.

    The attacker is the first feature party, the victim of features the label party, where it has columns.
    "MLP" is the paper's: the widths of the attack, on own columns.
    """
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
    from sklearn.linear_model import LogisticRegression, RidgeCV

    me, victim = run.task.feature_parties[0], _victim(run)
    shadow = shadow_of(run, frozenset({me}), SHADOW, False, run.plan.seed)
    x, y = shadow.features[me].flatten(1), shadow.labels
    inputs, labels = _own(run, me), run.task.labels[run.task.train]
    figures = {"labels, MLP": 100 * _share(_mlp(run, (1000, 600, 200), x, y, inputs, len(run.task.classes)), labels)}
    for name, learner in (
        ("extra trees", ExtraTreesClassifier(200, random_state=0)),
        ("logistic regression", LogisticRegression(max_iter=1000)),
    ):
        guess = learner.fit(x.numpy(), y.numpy()).predict(inputs.numpy())
        figures[f"labels, {name}"] = 100 * float(np.mean(guess == labels.numpy()))
    truth, known = _own(run, victim), shadow.features[victim].flatten(1)
    guesses = {
        "mean": known.mean(dim=0).expand_as(truth).numpy(),
        "ridge": RidgeCV(np.logspace(-3, 3, 13)).fit(x.numpy(), known.numpy()).predict(inputs.numpy()),
        "extra trees": ExtraTreesRegressor(100, random_state=0).fit(x.numpy(), known.numpy()).predict(inputs.numpy()),
        "MLP": _mlp(run, (800, 500, 100), x, known, inputs, 0).numpy(),
    }
    figures |= {f"features, {name}": float(np.mean((guess - truth.numpy()) ** 2)) for name, guess in guesses.items()}
    if 1 < truth.shape[1] <= 40:
        pair = [np.array(correlations(values)) for values in (truth.numpy(), guesses["ridge"])]
        figures["correlations, ridge"] = float(np.abs(pair[0] - pair[1]).mean())
    return figures


def _victim(run: Run) -> str:
    others = [name for name in run.task.features if name != run.task.feature_parties[0]]
    if not others:
        raise ConfigError("Expected a second party with columns, to guess them.")
    return others[0]


def _own(run: Run, name: str) -> Tensor:
    values = run.task.features[name].values
    if isinstance(values, SparseRows):
        raise ConfigError(f"Expected dense columns at {name}, got sparse ones.")
    return values[run.task.train].flatten(1)


def _mlp(run: Run, hidden: tuple[int, ...], x: Tensor, y: Tensor, inputs: Tensor, classes: int) -> Tensor:
    """The attack's network on own columns: records that hold nothing else."""

    def only(values: Tensor) -> Records:
        rows = torch.arange(len(values))
        return Records(rows, torch.zeros_like(rows), values.float(), torch.empty(1, 0), values.shape[1])

    with Stream(run.plan.seed, "own columns").scope():
        return Reader(hidden, only(x), classes).learn(y, ROUNDS, RATE).read(only(inputs))


def _share(guess: Tensor, truth: Tensor) -> float:
    return float((guess == truth).double().mean())
