"""Classes: a class number per row, measured by the share that is right."""

from typing import ClassVar

from cutlayer.finding import Form
from cutlayer.metrics.baseline import best_classes
from cutlayer.metrics.interval import mean_interval
from cutlayer.metrics.measure import Case, Measure, Score


class ClassAccuracy(Measure):
    """Accuracy, beside that of the best learner on the attacker's own columns."""

    form: ClassVar[Form] = Form.CLASSES
    metric: ClassVar[str] = "accuracy"

    def score(self, case: Case) -> Score:
        """Count rows that are right."""
        hits = (case.labels == case.guess.values).double().numpy()
        baseline = best_classes(case.own(), case.known_own, case.known, case.labels)
        return Score(*mean_interval(hits), *baseline)
