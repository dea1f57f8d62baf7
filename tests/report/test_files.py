import csv
import json
import random

import polars as pl
import pytest
from typer.testing import CliRunner

from cutlayer.cli.report import report
from cutlayer.errors import RunError
from cutlayer.report.files import FILES, findings_csv, write_all
from cutlayer.report.record import Record
from cutlayer.report.row import COLUMNS
from tests.helpers import synthetic_record as synthetic


def test_all_files_hold_the_same_findings(tmp_path):
    record = synthetic.record()
    written = write_all(record, tmp_path / "study")
    assert sorted(path.name for path in written) == sorted(FILES)
    assert sorted(path.name for path in (tmp_path / "study").iterdir()) == sorted(FILES)  # nothing temporary is left
    with (tmp_path / "study/findings.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    frame = pl.read_parquet(tmp_path / "study/findings.parquet")
    objects = json.loads((tmp_path / "study/findings.json").read_text())
    assert tuple(lines[0]) == tuple(frame.columns) == tuple(objects[0]) == COLUMNS
    assert frame.to_dicts() == objects == record.every and len(lines) == len(objects) == 120
    for line, row in zip(lines, objects, strict=True):
        assert line == {key: "" if value is None else str(value) for key, value in row.items()}
    assert Record.open(tmp_path / "study") == record


def test_findings_do_not_depend_on_the_order_of_work_nor_on_the_clock():
    rows = synthetic.rows()
    shuffled = random.Random(0).sample(rows, len(rows))
    assert findings_csv(synthetic.record(rows=shuffled)) == findings_csv(synthetic.record())
    slower = [row | {"seconds": 9.0, "train_seconds": 9.0, "step_seconds": 9.0} for row in rows]
    first, second = (findings_csv(synthetic.record(rows=r), clock=False) for r in (rows, slower))
    assert first == second and "seconds" not in first


@pytest.mark.parametrize("empty", [Record("nothing ran"), synthetic.record(rows=[], extras={})])
def test_an_empty_study_has_its_files_too(empty, tmp_path):
    write_all(empty, tmp_path)
    assert pl.read_parquet(tmp_path / "findings.parquet").columns == list(COLUMNS)


def test_cutlayer_report_rebuilds_everything(tmp_path, capsys):
    write_all(synthetic.record(), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        if path.name != "record.json":
            path.unlink()
    report(tmp_path)
    assert "unfinished: 1 of 120" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    report(tmp_path, json=True)
    assert json.loads(capsys.readouterr().out)["missing"] == 1
    with pytest.raises(RunError, match="study folder"):
        report(tmp_path / "nowhere")


def test_the_verb_takes_a_folder(tmp_path):
    import typer

    app = typer.Typer()
    app.command()(report)
    write_all(synthetic.record(), tmp_path)
    assert CliRunner().invoke(app, [str(tmp_path)]).exit_code == 0
