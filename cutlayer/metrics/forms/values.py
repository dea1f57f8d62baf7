"""Values: the victim's inputs, one per row, measured by their squared error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy

from cutlayer.finding import Correlations, Extras, Form
from cutlayer.metrics.baseline import best_values
from cutlayer.metrics.columns import correlations
from cutlayer.metrics.interval import mean_interval
from cutlayer.metrics.measure import Case, Measure, Score, per_column

if TYPE_CHECKING:
    from torch import Tensor

SHOWN = 8  # pictures that a finding keeps to be looked at
COLUMNS = 500  # and columns
PAIRS = 40  # columns whose correlations with each other it keeps
FEW = 30  # rows: the mean of fewer is too near to each of them to be a guess at it


class SquaredError(Measure):
    """Mean squared error, beside that of the mean row and of the best learner on the attacker's own columns."""

    form: ClassVar[Form] = Form.VALUES
    metric: ClassVar[str] = "mse"
    title: ClassVar[str] = "mean squared error"
    perfect: ClassVar[float] = 0.0
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))

    def score(self, case: Case) -> Score:
        """Compare every number; keep a few pictures, or the columns, to be looked at."""
        truth, guess = case.features(), case.guess
        values = guess.values.reshape(truth.shape)
        if guess.unordered and guess.groups is not None:
            values = _paired(truth, values, guess.groups)
        errors = (truth - values).pow(2).flatten(1).mean(1).numpy()
        mean = case.mean() if len(truth) < FEW else None
        baseline = best_values(case.own(), case.known_own, case.known, truth, mean)
        extras = _looks(truth, values)
        figures = {}
        if pair := extras.get("correlations"):
            off = np.abs(np.array(pair["truth"]) - np.array(pair["guess"])).mean()
            figures = {"off": round(float(off), 3)}
        return Score(*mean_interval(errors), *baseline, figures, extras)

    def sentence(self, figures: Mapping[str, float]) -> str:
        """How far guessed columns go together as true ones do."""
        return f"correlations of columns off by {figures['off']:.3f} on average" if "off" in figures else ""

    def error(self, value: float) -> float:
        """The squared error itself."""
        return value


def _paired(truth: Tensor, values: Tensor, groups: Tensor) -> Tensor:
    """Values in the order in which they fit the truth best, group by group."""
    paired = values.clone()
    for group in groups.unique():
        rows = (groups == group).nonzero()[:, 0]
        pair = (tensor[rows].flatten(1).double().numpy() for tensor in (truth, values))
        apart = scipy.spatial.distance.cdist(*pair, "sqeuclidean")
        paired[rows] = values[rows[scipy.optimize.linear_sum_assignment(apart)[1]]]
    return paired


def _looks(truth: Tensor, guess: Tensor) -> Extras:
    """Of pictures a few to look at; of columns the error of each beside its variance, and how they go together."""
    if truth.dim() == 4:
        return {"shown": {"truth": truth[:SHOWN].tolist(), "guess": guess[:SHOWN].tolist()}}
    if truth.dim() != 2 or truth.shape[1] > COLUMNS:
        return {}
    errors = (truth - guess).pow(2).mean(dim=0)
    columns = per_column(range(truth.shape[1]), errors.tolist(), truth.var(dim=0, unbiased=False).tolist())
    if not 1 < truth.shape[1] <= PAIRS:
        return {"columns": columns}
    together: Correlations = {"truth": correlations(truth.numpy()), "guess": correlations(guess.numpy())}
    return {"columns": columns, "correlations": together}
