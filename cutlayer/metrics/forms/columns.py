"""Columns: two-valued columns of the victim, each up to complement, measured by the share of rows that is right."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from cutlayer.errors import Inapplicable
from cutlayer.finding import Extras, Form
from cutlayer.metrics.columns import agreement, best_match, two_valued, with_sums
from cutlayer.metrics.interval import mean_interval
from cutlayer.metrics.measure import Case, Measure, Score, per_column


class ColumnAccuracy(Measure):
    """Accuracy over the victim's two-valued columns, beside that of each column's commoner value."""

    form: ClassVar[Form] = Form.COLUMNS
    metric: ClassVar[str] = "column accuracy"

    def score(self, case: Case) -> Score:
        """Give every true column the claimed one that fits it best."""
        bits, places = two_valued(case.features().flatten(1).numpy())
        claimed = case.guess.values.numpy() > 0.5
        if not bits.shape[1]:
            raise Inapplicable(f"binary-only: {case.victim} has no two-valued column ({claimed.shape[1]} claimed)")
        right = best_match(claimed, bits) == bits
        commoner = 0.5 + np.abs(bits.mean(axis=0) - 0.5)
        figures: dict[str, float] = {
            "exact": int(right.all(axis=0).sum()),
            "columns": bits.shape[1],
            "claimed": claimed.shape[1],
        }
        if claimed.shape[1]:
            best = agreement(claimed[:, :1], with_sums(bits)).max()
            figures["first"] = round(100 * float(best), 2)
        interval = mean_interval(right.mean(axis=1))
        extras: Extras = {"columns": per_column(places, right.mean(axis=0), commoner)}
        return Score(*interval, float(commoner.mean()), "commoner value", figures, extras)

    def sentence(self, figures: Mapping[str, float]) -> str:
        """How many columns are known without a mistake."""
        first = f", the first right on {figures['first']:.2f}% of rows" if "first" in figures else ""
        exact, columns, claimed = (figures[name] for name in ("exact", "columns", "claimed"))
        return f"{exact} of {columns} two-valued columns exact, {claimed} claimed{first}"
