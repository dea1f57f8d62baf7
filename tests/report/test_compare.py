import json

import pytest

from cutlayer.cli.compare import compare as verb
from cutlayer.report.advantage import Estimate
from cutlayer.report.compare import compare, compare_html, overlap, summary
from cutlayer.report.files import write_all
from tests.helpers import synthetic_record as synthetic
from tests.helpers.parsed_page import Page


def changed():
    """The second study: norm-score does worse undefended, hash is gone, and a defence is new."""
    rows = [row for row in synthetic.rows() if row["defence"] != "hash"]
    for row in rows:
        if row["defence"] == "none":
            row["bytes"] -= 1000
            row["accuracy"] -= 0.1
            if row["attack"] == "norm-score":
                row["value"] -= 0.3
    extra = [row | {"defence": "max-norm", "cell": f"new{n}"} for n, row in enumerate(rows) if row["defence"] == "none"]
    return synthetic.record(rows=[*rows, *extra], extras={}, title="after")


def test_what_moved_and_what_did_not():
    comparison = compare(synthetic.record(), changed())
    (moved,) = comparison.moved
    assert (moved["attack"], moved["setup"]) == ("norm-score", "none")
    assert moved["difference"] == pytest.approx(-0.3) and moved["advantage_difference"] == pytest.approx(-0.6)
    still = next(c for c in comparison.cells if c["setup"] == "none" and c["attack"] == "model-inversion")
    assert still["difference"] == 0 and still["overlap"] is True
    assert {entry["defence"] for entry in comparison.only_a} == {"hash"} and len(comparison.only_a) == 10
    assert {entry["defence"] for entry in comparison.only_b} == {"max-norm"} and len(comparison.only_b) == 5
    none = next(setup for setup in comparison.setups if setup["setup"] == "none")
    assert none["accuracy_difference"] == pytest.approx(-0.1) and none["bytes_difference"] == -1000


def test_cells_without_a_figure_have_no_difference():
    a, b = synthetic.record(), changed()
    cell = next(c for c in compare(a, b).cells if c["attack"] == "binary-search" and c["defence"] == "hash+max-norm")
    assert cell["status_a"] == "does not apply" and cell["difference"] is None and cell["overlap"] is None


def test_overlap():
    assert overlap(Estimate(1, 0, 2), Estimate(3, 2, 4)) is True
    assert overlap(Estimate(1, 0, 2), Estimate(4, 3, 5)) is False
    assert overlap(Estimate(1, None, None), Estimate(3, 2, 4)) is None


def test_a_study_equals_itself():
    comparison = compare(synthetic.record(), synthetic.record())
    assert not comparison.moved and not comparison.only_a and not comparison.only_b
    assert all(cell["difference"] in (0, None) for cell in comparison.cells)
    assert (
        summary(comparison) == "40 cells in both, none with intervals apart; 0 only in the first, 0 only in the second."
    )


def test_the_page_stands_alone_and_escapes():
    page = Page(compare_html(compare(synthetic.record(title="</title><script>alert(1)</script>"), changed())))
    assert not page.all("script") and len(page.all("table")) == 4
    assert "1 of them with intervals that do not meet" in page.words()
    (policy,) = [m.attrs["content"] for m in page.all("meta") if "http-equiv" in m.attrs]
    assert "script-src 'none'" in policy


def test_cutlayer_compare(tmp_path, capsys):
    write_all(synthetic.record(), tmp_path / "a")
    write_all(changed(), tmp_path / "b")
    verb(tmp_path / "a", tmp_path / "b", out=tmp_path / "compare.html")
    shown = capsys.readouterr().out
    assert "intervals that do not meet" in shown and "None" not in shown and (tmp_path / "compare.html").exists()
    verb(tmp_path / "a", tmp_path / "b", json=True)
    assert len(json.loads(capsys.readouterr().out)["only_b"]) == 5
