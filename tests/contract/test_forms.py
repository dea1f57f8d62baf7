"""Every form of a guess has a measure of its own, and a report can speak of each."""

import random

import pytest

from cutlayer.finding import Form
from cutlayer.metrics.forms import MEASURES, NAMED, measure_named, measure_of
from cutlayer.metrics.measure import Measure
from cutlayer.report.html import html
from cutlayer.report.markdown import markdown
from cutlayer.report.record import Record
from tests.helpers import synthetic_record as synthetic


def test_every_form_has_one_measure_in_a_file_of_its_name():
    assert set(MEASURES) == set(Form) and len(NAMED) == len(Form)
    for form in Form:
        measure = measure_of(form)
        assert type(measure).__module__ == f"cutlayer.metrics.forms.{form.value}"
        assert type(measure).score is not Measure.score and measure_named(measure.metric) is measure


def test_directions_agree_with_each_other():
    for measure in MEASURES.values():
        low, high = measure.bounds
        assert measure.perfect in (low, high), measure.metric
        baseline = 0.4
        better = baseline + 0.1 * (1 if measure.perfect > baseline else -1)
        assert measure.advantage(better, baseline) > 0 > measure.advantage(2 * baseline - better, baseline)
        assert measure.advantage(measure.perfect, baseline) == 1 and measure.advantage(baseline, baseline) == 0
        assert measure.advantage(measure.perfect, measure.perfect) == 0  # nothing is left to gain
        assert measure.error(measure.perfect) == 0 < measure.error(baseline)
        assert measure.heat(0.5) == 0.5 and measure.heat(7.0) == 1
        assert measure.heat(-0.5) == (0.5 if measure.two_sided else 0)
        assert measure.direction == ("lower leaks more" if measure.perfect == low else "higher leaks more")


@pytest.mark.parametrize("form", Form)
def test_a_report_renders_a_finding_of_each_form(form):
    measure, rng = measure_of(form), random.Random(0)
    changes = {"metric": measure.metric, "baseline": 0.5, "baseline_name": "the usual", "low": None, "high": None}
    rows = [
        synthetic.row("none", "", "norm-score", seed, **changes | {"value": 0.3 + rng.random() / 10})
        for seed in synthetic.SEEDS
    ]
    record = Record("one form", rows=rows)
    for text in (html(record), markdown(record)):
        assert measure.metric in text and "the usual" in text
    assert f"{measure.metric}, {measure.direction}" in html(record)
    assert f"{measure.name} of the attack" in html(record)
