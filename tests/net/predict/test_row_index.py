"""Which rows a party can be asked about, and what stands for an id on the wire."""

from dataclasses import replace

import pytest
import torch

from cutlayer.errors import CutlayerError, RunError
from cutlayer.net.party.finished_run import FinishedRun
from cutlayer.net.predict.row_index import TAG, normalise_ids, row_index_of, tag
from tests.helpers.finished_run import write_files, write_tables
from tests.helpers.prediction import predicting, trained_federation


def test_fresh_tables_serve_people_and_levels_that_training_never_saw(tmp_path):
    files, _session, ids = trained_federation(tmp_path)
    (tmp_path / "new-bank.csv").write_text("customer,a,b,c\nn1,0.1,0.2,0.3\nn2,,1,-1\n")
    (tmp_path / "new-shop.csv").write_text("customer,town,c,b,a,flag\nN1,Rome,1,2,3,1\n")
    fresh = {name: replace(file, serve=replace(file.serve, table=f"new-{name}.csv")) for name, file in files.items()}
    with predicting(fresh) as predictor:
        predictor.meet()
        answers = predictor.predict(normalise_ids(["n1", "n2", ids[0]], predictor.run))
    assert torch.isfinite(answers[0].outputs).all()
    assert [answer.missing for answer in answers] == [(), ("shop",), ("bank",)]


def test_a_defence_that_draws_once_per_record_serves_records_of_training_only(tmp_path):
    files, _session, ids = trained_federation(tmp_path, run='defences = ["column-noise"]')
    index = row_index_of(FinishedRun.read(files["shop"]))
    assert index is not None and set(index.rows) == {tag(id_.encode(), files["shop"].run) for id_ in ids}
    fresh = replace(files["shop"], serve=replace(files["shop"].serve, table="shop.csv"))
    with pytest.raises(CutlayerError, match="once per record"):
        row_index_of(FinishedRun.read(fresh))
    lines = (tmp_path / "shop.csv").read_text().splitlines()
    (tmp_path / "shop.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    with pytest.raises(RunError, match="as it was in training"):
        row_index_of(FinishedRun.read(files["shop"]))


def test_tags_differ_by_salt_and_say_nothing_without_it(tmp_path):
    write_tables(tmp_path)
    run = write_files(tmp_path)["bank"].run
    assert len(tag(b"c1", run)) == TAG
    assert tag(b"c1", run) != tag(b"c1", replace(run, salt="other"))
