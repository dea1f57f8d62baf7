"""Forms of a guess: one file each, with the measure that scores it. A measure is found because its file lies here."""

import sys

from cutlayer.finding import Form
from cutlayer.metrics.measure import Measure
from cutlayer.spec import find

MEASURES = {measure.form: measure() for measure in find(sys.modules[__name__], Measure).values()}
NAMED = {measure.metric: measure for measure in MEASURES.values()}


def measure_of(form: Form) -> Measure:
    """The measure of guesses of a form."""
    return MEASURES[form]


def measure_named(metric: str) -> Measure:
    """The measure that a finding names."""
    return NAMED[metric]
