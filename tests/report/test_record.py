import json
import subprocess
import sys

import pytest

from cutlayer.errors import ConfigError, RunError
from cutlayer.report.record import Record
from tests.helpers import synthetic_record as synthetic


def test_json_and_back():
    record = synthetic.record()
    again = Record.from_json(record.to_json())
    assert again == record and again.to_json() == record.to_json()


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
