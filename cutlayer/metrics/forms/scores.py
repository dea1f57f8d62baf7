"""Scores: the higher, the more likely positive; measured by the area under the ROC curve."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cutlayer.finding import Form
from cutlayer.metrics.interval import mean_interval
from cutlayer.metrics.measure import Case, Measure, Score
from cutlayer.metrics.utility import Bits, auc, roc

Floats = NDArray[np.float64]


class BatchAuc(Measure):
    """AUC, the mean over batches; chance has one half, and turned around, an AUC below that leaks as much."""

    form: ClassVar[Form] = Form.SCORES
    metric: ClassVar[str] = "auc"
    title: ClassVar[str] = "AUC"
    two_sided: ClassVar[bool] = True

    def score(self, case: Case) -> Score:
        """Rank rows batch by batch; the curve is that of all rows."""
        labels, scores, groups = case.labels.numpy(), case.guess.values.double().numpy(), case.guess.groups
        per_batch = _aucs(labels == 1, scores, None if groups is None else groups.numpy())
        return Score(*mean_interval(per_batch), 0.5, "chance", extras={"roc": roc(labels == 1, scores)})

    def error(self, value: float) -> float:
        """Folded: whoever is wrong more often than right turns the scores around."""
        return 1 - max(value, 1 - value)


def _aucs(positive: Bits, scores: Floats, groups: NDArray[np.int64] | None) -> Floats:
    """AUC per batch; batches that lack a class are skipped (specification: baselines, section 2)."""
    if groups is None:
        return np.array([auc(positive, scores)])
    areas = np.array([auc(positive[groups == group], scores[groups == group]) for group in np.unique(groups)])
    return np.asarray(areas[~np.isnan(areas)])
