import base64
import re
from html.parser import HTMLParser

import pytest

from cutlayer import Report
from cutlayer.report.page import page

ROW = {
    "defence": "max-norm",
    "seed": 0,
    "attack": "norm-score",
    "attacker": "shop",
    "target": "labels",
    "victim": "bank",
    "metric": "auc",
    "value": 0.6125,
    "baseline": 0.5025,
    "baseline_name": "chance",
    "low": 0.5875,
    "high": 0.6375,
    "rows": 100,
    "granted": "40 labels",
    "status": "done",
    "reason": "",
    "utility": 0.9375,
    "utility_metric": "accuracy",
    "bytes": 10,
}
NAN = float("nan")


class Text(HTMLParser):
    """Collects text and checks that tags are closed in order."""

    VOID = ("meta", "br", "img")

    def __init__(self, html):
        super().__init__()
        self.open, self.words, self.tags = [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)


def text(html):
    return " ".join(" ".join(Text(html).words).split())


def test_every_figure_stands_beside_its_baseline_interval_utility_and_knowledge():
    shown = text(page(Report([ROW])))
    for wanted in ("max-norm", "norm-score", "shop about the labels of bank", "40 labels"):
        assert wanted in shown
    for wanted in ("0.6125 auc, higher leaks more", "0.5875 to 0.6375", "0.5025 chance", "0.9375 accuracy"):
        assert wanted in shown


def test_every_row_of_the_summary_is_there():
    rows = [ROW | {"defence": f"d{n}", "value": 0.1 * n, "baseline": 0.05 * n} for n in range(9)]
    shown = text(page(Report(rows)))
    for row in rows:
        assert f"{row['value']:.4g} auc" in shown and f"{row['baseline']:.4g} chance" in shown


def test_errors_are_marked_as_leaking_when_low():
    assert "lower leaks more" in text(page(Report([ROW | {"metric": "mse"}])))


def test_attacks_that_do_not_apply_say_why():
    nothing = {"value": NAN, "low": NAN, "high": NAN, "baseline": NAN, "victim": "", "metric": ""}
    shown = text(page(Report([ROW | nothing | {"status": "does not apply", "reason": "binary-only"}])))
    assert "does not apply: binary-only" in shown and "nan" not in shown


def test_text_is_escaped():
    evil = "<script>alert('&')</script>"
    fields = (
        "defence",
        "attack",
        "attacker",
        "victim",
        "target",
        "baseline_name",
        "granted",
        "utility_metric",
        "metric",
    )
    html = page(Report([ROW | dict.fromkeys(fields, evil) | {"task": evil}]))
    assert "script" not in Text(html).tags and html.count("<script") == 0
    assert evil in text(html)


@pytest.mark.parametrize("rows", [[], [ROW], [ROW | {"seed": n, "value": n / 10} for n in range(3)]])
def test_the_page_is_whole_and_needs_nothing_else(rows, tmp_path):
    Report(rows).save(tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert html.startswith("<!doctype html>") and Text(html).tags
    assert not re.search(r"(?:src|href)=\"(?!data:)|url\(|@import", html)
    picture = re.search(r"data:image/png;base64,([^\"]+)\"", html)
    assert base64.b64decode(picture[1], validate=True).startswith(b"\x89PNG")


def test_tasks_have_a_table_each():
    html = page(Report([ROW | {"task": "digits"}, ROW | {"task": "is it a 3?", "defence": "none"}]))
    assert Text(html).tags.count("table") == 2 and "is it a 3?" in text(html)
