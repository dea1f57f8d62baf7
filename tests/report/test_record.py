import json
import subprocess
import sys

import pytest

from cutlayer.errors import ConfigError, RunError
from cutlayer.finding import Status
from cutlayer.report.cells import cells_of, matrix, setup_name
from cutlayer.report.record import COLUMNS, Record
from tests.helpers import synthetic_record as synthetic


def test_json_and_back():
    record = synthetic.record()
    again = Record.from_json(record.to_json())
    assert again == record and again.to_json() == record.to_json()


def test_rows_have_exactly_the_columns():
    good = synthetic.rows()[0]
    assert tuple(Record("t", rows=[good]).rows[0]) == COLUMNS
    with pytest.raises(ConfigError, match="row 0 to have paper"):
        Record("t", rows=[{k: v for k, v in good.items() if k != "paper"}])
    with pytest.raises(ConfigError, match="Unknown key of row 0: colour"):
        Record("t", rows=[good | {"colour": "red"}])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": "finished"}, "status"),
        ({"target": "label"}, "Did you mean 'labels'"),
        ({"metric": "f1"}, "metric"),
        ({"value": "high"}, "value of row 0"),
        ({"attack": None}, "attack of row 0"),
        ({"seed": None}, "seed"),
    ],
)
def test_wrong_rows_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        Record("t", rows=[synthetic.rows()[0] | changes])


def test_a_figure_that_is_not_finite_is_a_failure():
    (row,) = Record("t", rows=[synthetic.rows()[0] | {"value": float("nan")}]).rows
    assert row["status"] == "failed" and "finite value" in row["reason"] and row["value"] is None


def test_rows_are_sorted_whatever_order_they_came_in():
    rows = synthetic.rows()
    assert Record("t", rows=rows).rows == Record("t", rows=rows[::-1]).rows
    strengths = list(dict.fromkeys(r["strength"] for r in Record("t", rows=rows).rows if r["defence"] == "hash"))
    assert strengths == ["bits=4", "bits=16"]


def test_extras_belong_to_rows_and_are_checked():
    row = synthetic.rows()[0]
    with pytest.raises(ConfigError, match="'nowhere'"):
        Record("t", rows=[row], extras={"nowhere": {}})
    with pytest.raises(ConfigError, match="base64"):
        Record("t", rows=[row], extras={row["cell"]: {"images": {"originals": ['"><script>'], "guesses": ["AAAA"]}}})
    with pytest.raises(ConfigError, match="roc"):
        Record("t", rows=[row], extras={row["cell"]: {"roc": {"fpr": [0]}}})
    shared = Record("t", rows=[row], extras={f"{row['cell']}/{row['victim']}": {"dcs": 0.5}})
    assert shared.extra(shared.rows[0]) == {"dcs": 0.5}


def test_what_is_missing_is_marked():
    record = synthetic.record()
    assert not record.finished and [r["status"] for r in record.missing] == ["missing"]
    assert synthetic.record(missing=[]).finished
    with pytest.raises(ConfigError, match="missing 0 to have attack"):
        Record("t", missing=[{"defence": "none", "seed": 0}])


def test_cells_join_seeds_and_victims():
    found = {(c.setup, c.attack): c for c in cells_of(synthetic.record())}
    assert len(found) == len(synthetic.HIDES) * len(synthetic.ATTACKS)
    assert found["gaussian-noise:std=1", "pgd"].gaps == {(Status.FAILED, "the attack diverged"): 1}
    assert len(found["gaussian-noise:std=1", "pgd"].done) == 2
    assert found["hash:bits=4", "binary-search"].victim == "shop"  # as elsewhere, though the finding has none
    assert found["secure-sum", "model-inversion"].gaps == {(Status.MISSING, ""): 1}
    setups, lines = matrix(list(found.values()))
    assert setups[0] == "none" and len(lines) == len(synthetic.ATTACKS)
    assert all(set(line) == set(setups) for _, line in lines)


def test_a_folder_without_a_record_and_a_damaged_one_are_told_in_a_sentence(tmp_path):
    with pytest.raises(RunError, match=r"record\.json"):
        Record.open(tmp_path)
    for text in ("{", "[]", '{"title": "x"}', json.dumps({"what": 1})):
        (tmp_path / "record.json").write_text(text)
        with pytest.raises(RunError, match="damaged"):
            Record.open(tmp_path)


def test_the_record_itself_needs_no_torch():
    code = (
        "import sys, types\n"
        "for name in ('cutlayer', 'cutlayer.report'):\n"
        "    package = types.ModuleType(name)\n"
        "    package.__path__ = [name.replace('.', '/')]\n"
        "    sys.modules[name] = package\n"
        "import cutlayer.report.record, cutlayer.report.html\n"
        "assert 'torch' not in sys.modules and 'plotly' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=synthetic.__file__.rsplit("/tests/", 1)[0])


def test_a_choice_is_checked():
    choice = dict(synthetic.record().choice)
    with pytest.raises(ConfigError, match="constraints of the choice to be a list"):
        synthetic.record(choice=choice | {"constraints": "labels"})
    with pytest.raises(ConfigError, match="the choice to have why"):
        synthetic.record(choice={k: v for k, v in choice.items() if k != "why"})


@pytest.mark.parametrize(
    ("defence", "strength", "name"),
    [
        ("none", "", "none"),
        ("gaussian-noise", "std=1e+05", "gaussian-noise:std=1e+05"),
        ("hash+max-norm", "bits=8+", "hash:bits=8+max-norm"),
        ("hash+label-dp", "bits=8+epsilon=2", "hash:bits=8+label-dp:epsilon=2"),
        ("hash+max-norm", "bits=8", "hash+max-norm (bits=8)"),
    ],
)
def test_a_setup_is_named_as_on_the_command_line(defence, strength, name):
    assert setup_name(defence, strength) == name
