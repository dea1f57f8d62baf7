"""A file of ids becomes a file of predictions."""

import csv
from types import SimpleNamespace

import polars as pl
import pytest
import torch

from cutlayer.net.party.finished_run import FinishedRun
from cutlayer.net.peers.events import Regroup
from cutlayer.net.predict.id_file import predict_file, read_wanted_ids
from tests.helpers.prediction import PretendedPredictor, predicting, trained_federation


def test_a_file_of_ids_becomes_a_file_of_predictions(tmp_path):
    files, session, ids = trained_federation(tmp_path)
    (tmp_path / "people.csv").write_text("customer,note\n" + "".join(f"{id_},x\n" for id_ in [*ids, "c3", "nobody"]))
    with predicting(files) as predictor:
        record = predict_file(
            predictor, read_wanted_ids(tmp_path / "people.csv", files["bank"]), tmp_path / "out.csv", lambda *args: None
        )
    assert record["rows"] == len(ids) + 2 and record["predicted"] == len(ids)
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert list(rows[0]) == ["id", "probability_no", "probability_yes", "predicted", "missing_at"]
    expected = torch.softmax(session.predict(torch.arange(len(ids))).double(), dim=1)
    assert [float(row["probability_yes"]) for row in rows[:-2]] == pytest.approx(expected[:, 1].tolist())
    assert [row["predicted"] for row in rows[:-2]] == [("no", "yes")[id_] for id_ in expected.argmax(dim=1)]
    assert [(row["predicted"], row["missing_at"]) for row in rows[-2:]] == [("", "shop"), ("", "bank")]
    assert not list(tmp_path.glob("*.tmp")) and (tmp_path / "out.csv").stat().st_mode & 0o077 == 0


def test_regression_comes_back_in_the_units_of_the_target(tmp_path):
    files, session, ids = trained_federation(tmp_path, regression=True)
    with predicting(files) as predictor:
        predict_file(predictor, list(ids), tmp_path / "out.parquet", lambda *args: None)
    table = pl.read_parquet(tmp_path / "out.parquet")
    assert table.columns == ["id", "predicted", "missing_at"]
    run = FinishedRun.read(files["bank"])
    outputs = session.predict(torch.arange(len(ids)))[:, 0].double() * run.spread + run.mean
    assert table["predicted"].to_list() == pytest.approx(outputs.tolist())
    truth = dict(pl.read_csv(tmp_path / "bank.csv").select("customer", "y").iter_rows())
    true = torch.tensor([truth[id_] for id_ in ids])
    assert torch.corrcoef(torch.stack([true, outputs]))[0, 1] > 0.5


def test_a_file_goes_on_where_it_was_when_a_party_starts_again(tmp_path, monkeypatch):
    monkeypatch.setattr("cutlayer.net.predict.id_file.ID_LIMIT", 2)
    files, _session, _ids = trained_federation(tmp_path)
    predictor = PretendedPredictor()
    predictor.run, predictor.saved = files["bank"].run, SimpleNamespace(run=FinishedRun.read(files["bank"]))
    predict = predictor.predict

    def interrupted(ids):
        if predictor.meetings == 1 and predictor.sizes:
            raise Regroup("shop")
        return predict(ids)

    predictor.predict = interrupted
    record = predict_file(predictor, ["1", "2", "3", "4", "5"], tmp_path / "out.csv", lambda *args: None)
    assert record["predicted"] == 5 and predictor.meetings == 2 and predictor.sizes == [2, 2, 1]
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row["id"] for row in rows] == ["1", "2", "3", "4", "5"]
