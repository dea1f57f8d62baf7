"""Submissions: what the attacker sends in prediction instead of its embeddings, measured by how often it succeeds."""

from typing import ClassVar

from cutlayer.errors import CutlayerError
from cutlayer.finding import Form
from cutlayer.metrics.interval import mean_interval
from cutlayer.metrics.measure import Case, Measure, Score


class ForcedShare(Measure):
    """How often submissions bring about the wanted class, beside how often honest ones do."""

    form: ClassVar[Form] = Form.SUBMISSIONS
    metric: ClassVar[str] = "success"

    def score(self, case: Case) -> Score:
        """Predict with the submissions, and without."""
        if case.predict is None:
            raise CutlayerError("Expected a run that can predict, to score submissions.")
        forced, flagged = case.predict({case.attacker: case.guess.values})
        honest, _ = case.predict({})
        hits, usual = ((outputs.argmax(dim=1) == case.guess.wanted).double() for outputs in (forced, honest))
        count = int(flagged.sum())
        name = f"honest submissions; {count} of {len(flagged)} rows flagged"
        return Score(*mean_interval(hits.numpy()), float(usual.mean()), name, {"flagged": count})
