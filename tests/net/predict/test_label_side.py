"""Joint prediction from saved parts: what comes back is what the trained session says, and what is missing is named."""

import json

import pytest
import torch

from cutlayer.cli import main
from cutlayer.errors import RunError
from cutlayer.net.party.connection import Connection, Purpose
from cutlayer.net.peers.dialer import Dialer
from cutlayer.net.peers.events import PeerFailed
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.net.predict.row_index import normalise_ids
from cutlayer.net.predict.saved_party import COUNT_FILE
from tests.helpers.finished_run import finish, write_files, write_tables
from tests.helpers.prediction import THREE, outputs_of, predicting, trained_federation


@pytest.mark.parametrize(
    ("parties", "run"),
    [
        (("bank", "shop"), ""),
        (THREE, 'cut = "sum"'),
        (THREE, "columns_at_label_party = false"),
        (("bank", "shop"), 'defences = ["hash:bits=8", "abnormal-codes"]'),
        (("bank", "shop"), 'defences = ["column-noise", "max-norm"]'),
        (("bank", "shop"), 'bottom = "linear:bias=false"\ndefences = ["masquerade:rank=2"]'),
        (("bank", "shop"), 'defences = ["label-dp:stages=2,first=1"]'),
        (("bank", "shop"), 'cut = "secure-sum"\nbottom = "linear"'),
    ],
    ids=["concat", "sum-of-three", "labels-only", "hash", "column-noise", "masquerade", "label-dp", "secure-sum"],
)
def test_predictions_are_those_of_the_trained_session_bit_for_bit(tmp_path, parties, run):
    files, session, ids = trained_federation(tmp_path, parties=parties, run=run)
    expected = session.predict(torch.arange(len(ids)))
    with predicting(files) as predictor:
        predictor.meet()
        answers = predictor.predict(normalise_ids(ids, predictor.run))
        again = predictor.predict(normalise_ids(ids, predictor.run))
    assert torch.equal(outputs_of(answers), expected)
    assert torch.equal(outputs_of(again), expected)
    assert predictor.results["shop"]["known"] == 2 * len(ids)


@pytest.mark.parametrize(
    ("parties", "run"),
    [
        (("bank", "shop"), 'cut = "secure-sum"\nbottom = "linear"'),
        (THREE, 'cut = "secure-sum"\nbottom = "linear"'),
        (("bank", "shop"), 'cut = "encrypted-layer"'),
    ],
    ids=["shares-per-row", "shares-of-three", "encrypted-layer"],
)
def test_predictions_under_encryption_are_close_to_those_of_the_session(tmp_path, parties, run):
    files, session, ids = trained_federation(tmp_path, parties=parties, run=run)
    expected = session.predict(torch.arange(len(ids)))
    wanted = torch.randperm(len(ids), generator=torch.Generator().manual_seed(1)).tolist()
    with predicting(files) as predictor:
        predictor.meet()
        for part in (wanted[:50], wanted[30:90], wanted[:90]):  # some rows are new, some have shares already
            answers = predictor.predict(normalise_ids([ids[place] for place in part], predictor.run))
            assert torch.allclose(outputs_of(answers), expected[part], atol=1e-3)


def test_a_dataset_is_asked_by_row_numbers(tmp_path):
    files = write_files(tmp_path, parties=("party1", "party2"), run='dataset = "digits"')
    session, _ = finish(files)
    with predicting(files) as predictor:
        predictor.meet()
        answers = predictor.predict(normalise_ids([5, "1700", "9999", "x"], predictor.run))
    expected = session.predict(torch.tensor([5, 1700]))
    assert torch.equal(outputs_of(answers[:2]), expected)
    assert [answer.missing for answer in answers[2:]] == [("party1",), ("party1",)]


def test_certificates_protect_prediction_as_they_do_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["keys", "init", "authority"]) == 0
    for name in THREE:
        assert main(["keys", "request", name, "--out", f"{name}-keys"]) == 0
        assert main(["keys", "sign", "authority", f"{name}-keys/{name}.csr"]) == 0
        given = [f"authority/{name}.pem", "authority/ca.pem", "--crl", "authority/crl.pem"]
        assert main(["keys", "install", f"{name}-keys", *given]) == 0
    write_tables(tmp_path, parties=THREE)
    files = write_files(tmp_path, parties=THREE, run='cut = "secure-sum"\nbottom = "linear"', keys=True)
    session, _ = finish(files)
    with predicting(files, insecure=False) as predictor:
        predictor.meet()
        answers = predictor.predict(normalise_ids(["c100", "c101"], predictor.run))
    assert all(torch.isfinite(answer.outputs).all() for answer in answers)
    assert session.step > 0


def test_a_party_that_trains_is_refused_by_one_that_predicts(tmp_path):
    files, _session, _ids = trained_federation(tmp_path)
    bank, run = files["bank"], files["shop"].run
    with Connection(bank, Purpose.PREDICT, insecure=True, log=lambda text: None) as connection:
        connection.open()
        mailbox = Mailbox("shop", "bank", run.digest, ("bank",), ("bank", "shop"), None)
        dialer = Dialer(mailbox, f"127.0.0.1:{connection.port}", run.to_json(), lambda text: None)
        event = mailbox.events.get(timeout=10)
        dialer.close()
    assert isinstance(event, PeerFailed) and 'purpose: here "(nothing)", at bank "predict"' in str(event.error)


def test_noise_is_drawn_anew(tmp_path):
    files, _session, ids = trained_federation(tmp_path, run='defences = ["gaussian-noise:std=0.5"]')
    with predicting(files) as predictor:
        predictor.meet()
        first, second = (outputs_of(predictor.predict(normalise_ids(ids[:20], predictor.run))) for _ in range(2))
    assert not torch.equal(first, second) and torch.isfinite(first).all()


def test_ids_that_a_party_lacks_are_named_and_the_rest_is_predicted(tmp_path):
    files, _session, ids = trained_federation(tmp_path, parties=THREE)
    asked = ["c295", "c5", "c15", " C100 ", "c100", "stranger", "", ids[0]]
    with predicting(files) as predictor:
        predictor.meet()
        answers = predictor.predict(normalise_ids(asked, predictor.run))
        again = predictor.predict(normalise_ids(asked, predictor.run))
    assert [answer.missing for answer in answers] == [
        ("bank",),
        ("shop", "tele"),
        ("tele",),
        (),
        (),
        ("bank",),
        ("bank",),
        (),
    ]
    assert [answer.outputs is None for answer in answers] == [answer.outputs is None for answer in again]
    assert torch.equal(answers[3].outputs, answers[4].outputs)


def test_every_meeting_begins_at_steps_that_none_had_before(tmp_path):
    files, _session, ids = trained_federation(tmp_path)
    steps = []
    for _ in range(2):
        with predicting(files) as predictor:
            predictor.meet()
            steps.append(predictor.prediction.session.step)
            predictor.meet()
            steps.append(predictor.prediction.session.step)
            predictor.predict(normalise_ids(ids[:3], predictor.run))
    assert steps == [count << 32 for count in (1, 2, 3, 4)]
    assert (tmp_path / "shop-run" / COUNT_FILE).read_text() == "4"


def test_what_was_asked_for_is_in_both_ledgers(tmp_path):
    files, _session, ids = trained_federation(tmp_path)
    with predicting(files) as predictor:
        predictor.meet()
        predictor.predict(normalise_ids(ids[:5], predictor.run))
    for party, kinds in {"bank": ["points", "setup"], "shop": ["points", "embedding"]}.items():
        lines = [json.loads(line) for line in (tmp_path / f"{party}-run" / "ledger.jsonl").read_text().splitlines()]
        assert [line["kind"] for line in lines if "kind" in line] == kinds


def test_models_of_another_training_are_refused(tmp_path):
    files, _session, _ids = trained_federation(tmp_path)
    path = tmp_path / "shop-run" / "serving.json"
    path.write_text(path.read_text().replace("together", "elsewhere"))
    with pytest.raises(RunError, match="same training from shop"), predicting(files) as predictor:
        predictor.meet()


def test_numbers_start_afresh_when_too_many_are_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr("cutlayer.net.predict.label_side.REMEMBERED", 50)
    files, session, ids = trained_federation(tmp_path)
    expected = session.predict(torch.arange(len(ids)))
    with predicting(files) as predictor:
        predictor.meet()
        for start in range(0, 120, 30):
            answers = predictor.predict(normalise_ids(ids[start : start + 30], predictor.run))
            assert torch.allclose(outputs_of(answers), expected[start : start + 30], atol=1e-6)
        assert len(predictor._numbers) <= 50 and predictor.saved.meetings == 4
