import itertools
import json
import re
from collections import defaultdict
from dataclasses import replace

import pytest

from cutlayer.report.html import html
from cutlayer.report.markdown import markdown
from cutlayer.report.record import Record
from tests.helpers import synthetic_record as synthetic
from tests.helpers.hostile_record import EVIL, evil_record
from tests.helpers.parsed_page import Page


@pytest.fixture(scope="module")
def record():
    return synthetic.record()


@pytest.fixture(scope="module")
def page(record):
    return Page(html(record))


def test_the_order_is_the_officers_then_the_engineers(page):
    assert [h.text() for h in page.all("h2")] == ["For the privacy officer", "For the engineer"]
    names = [s.attrs["id"] for s in page.all("section")]
    assert names == [
        *("verdict", "who", "choice", "sure", "setups", "assumed", "untested"),
        *("trade-off", "matrix", "columns", "images", "roc", "costs", "cap", "repeat"),
    ]


def test_every_figure_has_its_data_table(page):
    figures = page.all("figure")
    assert len([f for f in figures if any(e.attrs.get("class") == "plot" for e in f.all("div"))]) == 6
    for figure in figures:
        (details,) = list(figure.all("details"))
        assert list(details.all("table"))
    tables = page.all("table")
    assert all(next(iter(table.all("caption"))).text() for table in tables)
    assert all(th.attrs["scope"] in ("row", "col") for th in page.all("th"))


def test_nothing_is_loaded_from_anywhere(page):
    for element in page.all():
        for key in ("src", "href", "srcset", "action", "poster", "data"):
            assert element.attrs.get(key, "#").startswith(("#", "data:image/png;base64,")), element.attrs
        assert element.tag not in ("link", "iframe", "object", "embed", "base")
    css = "".join(style.text() for style in page.all("style"))
    assert "url(" not in css and "@import" not in css
    (policy,) = [m.attrs["content"] for m in page.all("meta") if "http-equiv" in m.attrs]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "http" not in policy


def test_people_who_listen_or_type_can_follow(page):
    levels = [int(h.tag[1]) for h in page.all("h1", "h2", "h3")]
    assert levels.count(1) == 1 and all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert page.all("html")[0].attrs["lang"] == "en"
    assert all(image.attrs["alt"] for image in page.all("img"))
    assert all(button.text().strip() for button in page.all("button"))
    ids = [e.attrs["id"] for e in page.all() if "id" in e.attrs]
    assert len(ids) == len(set(ids))
    links = [a.attrs["href"][1:] for a in page.all("a")]
    assert set(links) <= set(ids) and page.all("a")[0].attrs["href"] == "#main"
    named = [e for e in page.all("div") if e.attrs.get("role") in ("img", "region", "group")]
    assert named and all(e.attrs.get("aria-label") for e in named)


def test_numbers_equal_the_rows(page):
    groups = defaultdict(list)
    for row in synthetic.rows():
        if row["status"] == "done":
            groups[row["defence"], row["strength"], row["attack"]].append(row["value"])
    wanted = sorted(sum(values) / len(values) for values in groups.values())
    cells = [b for b in page.all("button") if b.attrs.get("class") == "cell"]
    shown = sorted(float(next(b.all("data")).attrs["value"]) for b in cells)
    assert shown == pytest.approx(wanted)
    for button in cells:
        data = next(button.all("data"))
        assert float(data.text()) == pytest.approx(float(data.attrs["value"]), rel=1e-3)
        assert "baseline" in button.attrs["aria-label"] and "vs " in button.text()
    exact = {data.attrs["value"] for data in page.all("data")}
    assert all(repr(float(row["value"])) in exact for row in synthetic.rows() if row["status"] == "done")


def test_a_cell_without_a_figure_says_why(page):
    hatched = [b for b in page.all("button") if b.attrs.get("class") == "cell none"]
    assert {b.text() for b in hatched} == {"n/a"} and len(hatched) == 3
    assert all("needs real-valued embeddings" in b.attrs["aria-label"] for b in hatched)


def test_the_verdict_comes_from_the_numbers(page, record):
    words = next(s for s in page.all("section") if s.attrs["id"] == "verdict").text()
    assert "unfinished: 1 of 120 findings are missing" in words
    assert "Without a defence, bank learns the features of shop" in words
    assert "contact of shop" in words
    assert "Of 7 defended setups, gaussian-noise:std=10 holds every tested attack" in words
    quiet = [r | {"value": r["baseline"]} for r in record.rows if r["defence"] == "none"]
    assert "Even without a defence, no attack" in Page(html(Record("t", rows=quiet))).words()
    loud = [r for r in record.rows if r["strength"] != "std=10"]
    assert "None of 6 defended setups holds every tested attack" in Page(html(Record("t", rows=loud))).words()


def test_what_was_not_tested_is_listed(page):
    words = next(s for s in page.all("section") if s.attrs["id"] == "untested").text()
    for wanted in ("the attack diverged", "needs real-valued embeddings", "missing", "collude", "cheat in training"):
        assert wanted in words


def test_what_trainings_said_stands_beside_their_setup(page, record):
    (section,) = [s for s in page.all("section") if s.attrs["id"] == "setups"]
    notes = [item.text() for item in section.all("li")]
    assert notes == ["gaussian-noise:std=10: Training diverged.", "gaussian-noise:std=10: seed 2: epsilon 3"]
    assert "- gaussian-noise:std=10: Training diverged." in markdown(record)
    silent = replace(record, facts={**record.facts, "setup_notes": {}})
    assert "Notes on the setups" not in markdown(silent)


def test_a_recommendation_may_be_that_none_achieves_it(page, record):
    assert "None of the setups tested achieves what was asked for." in page.words()
    named = dict(record.choice) | {"choice": "hash:bits=4"}
    assert "Use hash:bits=4." in Page(html(synthetic.record(choice=named))).words()
    assert "Recommendation" not in Page(html(synthetic.record(choice=None))).words()


def test_hostile_names_stay_text():
    page = Page(html(evil_record()))
    assert not page.all("img", "b") and len(page.all("script")) == 3
    assert page.words().count(EVIL) > 10 and page.all("title")[0].text() == EVIL
    data = json.loads(next(s for s in page.all("script") if s.attrs.get("id") == "data").text())
    drawn = json.dumps([view for views in data["figures"].values() for view in views.values()])
    assert "&lt;/script" in drawn and "<img" not in drawn  # Plotly reads some HTML in texts
    text = markdown(evil_record())
    assert "<img" not in re.sub(r"(?m)^    .*$", "", text)


@pytest.mark.parametrize("rows", [[], synthetic.rows()[:1]])
def test_little_is_a_page_too(rows):
    assert "no interval" not in Page(html(Record("t", rows=rows))).words()
    assert markdown(Record("t", rows=rows)).startswith("# t\n")


def test_markdown_has_the_same_sections_and_figures(page, record):
    text = markdown(record)
    for heading in page.all("h3"):
        assert f"### {heading.text()}\n" in text
    for row in text.splitlines():
        if row.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", row)) >= 3
    assert "gaussian-noise:std=10 holds every tested attack" in text and "nan" not in text.lower().split()


def test_one_seed_without_an_interval_says_so():
    row = synthetic.rows()[0] | {"low": None, "high": None}
    assert "no interval" in Page(html(Record("t", rows=[row]))).words()


def test_cap_is_accuracy_times_error_over_strengths():
    rows = []
    for strength, accuracy, value in (("bits=4", 0.8, 0.5), ("bits=8", 0.9, 0.7)):
        row = next(r for r in synthetic.rows() if r["attack"].startswith("model-c"))
        rows.append(
            row | {"defence": "hash", "strength": strength, "accuracy": accuracy, "value": value, "cell": strength}
        )
    page = Page(html(Record("t", rows=rows, extras={"bits=4": {"dcs": 0.25}})))
    section = next(s for s in page.all("section") if s.attrs["id"] == "cap")
    entries = [float(d.attrs["value"]) for d in section.all("data")]
    assert entries == pytest.approx([2, (0.8 * 0.5 + 0.9 * 0.3) / 2, 0.27, 0.4, 0.25])


def test_an_auc_below_chance_is_not_called_safe():
    rows = [r | {"value": 0.2} for r in synthetic.rows() if r["attack"] == "norm-score" and r["defence"] == "none"]
    words = Page(html(Record("t", rows=rows))).words()
    assert "Without a defence, shop learns the labels of bank, 60% of the way" in words
    assert "turned around, it would be above" in words


def test_a_clean_sheet_says_which_attacks_did_not_run():
    rows = [r for r in synthetic.rows() if r["strength"] in ("", "std=10") and r["defence"] != "secure-sum"]
    lost = [r | {"status": "failed"} if (r["strength"], r["attack"]) == ("std=10", "pgd") else r for r in rows]
    words = Page(html(Record("t", rows=lost))).words()
    assert "gaussian-noise:std=10 (1 attack failed or missing) holds every tested attack" in words
