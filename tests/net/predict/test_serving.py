"""Joint prediction from saved parts: what comes back is what the trained session says, and what is missing is named."""

import csv
import json
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import httpx
import polars as pl
import pytest
import torch

from cutlayer.cli import main
from cutlayer.errors import CutlayerError, ProtocolError, RunError
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.net.peers.carrier import Regroup
from cutlayer.net.peers.dial import Dial
from cutlayer.net.peers.mailbox import Broke, Post
from cutlayer.net.predict.figures import Figures
from cutlayer.net.predict.id_file import predict_sheet, read_sheet
from cutlayer.net.predict.label_side import Answer, Asking
from cutlayer.net.predict.request_queue import Busy, Desk, Lost
from cutlayer.net.predict.row_index import TAG, Book, Numbered, book_of, spell, tag
from cutlayer.net.predict.serving import COUNTED, Answering
from cutlayer.net.predict.trained import Trained
from cutlayer.net.predict.which_rows import answer, ask
from cutlayer.session import exchange
from tests.helpers.finished_run import finish, write_files, write_tables
from tests.helpers.processes import free_port, wait_for

THREE = ("bank", "shop", "tele")


@contextmanager
def serving(files, *, insecure=True):
    """The label party, asking; the others answer in threads of this process."""
    silent = {"insecure": insecure, "log": lambda text: None}
    port = free_port()
    moved = {
        name: replace(
            file,
            party=replace(file.party, **{"listen" if file.is_label_party else "connect": f"127.0.0.1:{port}"}),
        )
        for name, file in files.items()
    }
    asking = next(Asking(file, **silent) for file in moved.values() if file.is_label_party)
    results: dict = {}

    def answer_all(name, party):
        try:
            results[name] = party.run()
        except CutlayerError as error:
            results[name] = error

    others = {name: Answering(file, **silent) for name, file in moved.items() if not file.is_label_party}
    threads = [threading.Thread(target=answer_all, args=pair, daemon=True) for pair in others.items()]
    asking.connect()
    for thread in threads:
        thread.start()
    asking.results = results
    try:
        yield asking
        asking.finish()
        for thread in threads:
            thread.join(20)
    finally:
        asking.close()


def federation(folder, *, parties=("bank", "shop"), run="", regression=False):
    write_tables(folder, parties=parties, regression=regression)
    files = write_files(folder, parties=parties, run=run)
    session, rows = finish(files)
    table = pl.read_csv(folder / "bank.csv")["customer"].to_list()
    return files, session, [table[row] for row in rows["bank"].tolist()]


def outputs_of(answers):
    return torch.stack([one.outputs for one in answers])


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
    files, session, ids = federation(tmp_path, parties=parties, run=run)
    expected = session.predict(torch.arange(len(ids)))
    with serving(files) as asking:
        asking.meet()
        answers = asking.predict(spell(ids, asking.run_))
        again = asking.predict(spell(ids, asking.run_))
    assert torch.equal(outputs_of(answers), expected)
    assert torch.equal(outputs_of(again), expected)
    assert asking.results["shop"]["known"] == 2 * len(ids)


@pytest.mark.parametrize(
    ("parties", "run"),
    [
        (("bank", "shop"), 'cut = "secure-sum"\nbottom = "linear"'),
        (THREE, 'cut = "secure-sum"'),
        (("bank", "shop"), 'cut = "encrypted-layer"'),
    ],
    ids=["shares-per-row", "deep-of-three", "encrypted-layer"],
)
def test_predictions_under_encryption_are_close_to_those_of_the_session(tmp_path, parties, run):
    files, session, ids = federation(tmp_path, parties=parties, run=run)
    expected = session.predict(torch.arange(len(ids)))
    wanted = torch.randperm(len(ids), generator=torch.Generator().manual_seed(1)).tolist()
    with serving(files) as asking:
        asking.meet()
        for part in (wanted[:50], wanted[30:90], wanted[:90]):  # some rows are new, some have shares already
            answers = asking.predict(spell([ids[place] for place in part], asking.run_))
            assert torch.allclose(outputs_of(answers), expected[part], atol=1e-3)


def test_a_dataset_is_asked_by_row_numbers(tmp_path):
    files = write_files(tmp_path, parties=("party1", "party2"), run='dataset = "digits"')
    session, _ = finish(files)
    with serving(files) as asking:
        asking.meet()
        answers = asking.predict(spell([5, "1700", "9999", "x"], asking.run_))
    expected = session.predict(torch.tensor([5, 1700]))
    assert torch.equal(outputs_of(answers[:2]), expected)
    assert [one.missing for one in answers[2:]] == [("party1",), ("party1",)]


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
    with serving(files, insecure=False) as asking:
        asking.meet()
        answers = asking.predict(spell(["c100", "c101"], asking.run_))
    assert all(torch.isfinite(one.outputs).all() for one in answers)
    assert session.step > 0


def test_a_party_that_trains_is_refused_by_one_that_predicts(tmp_path):
    files, _session, _ids = federation(tmp_path)
    bank, shop = (Trained.read(file) for file in files.values())
    asking = Asking(bank.file, insecure=True, log=lambda text: None)
    asking.connect()
    post = Post("shop", "bank", shop.file.run.digest, ("bank",), ("bank", "shop"), None)
    dial = Dial(post, f"127.0.0.1:{asking.end.port}", shop.file.run.to_json(), lambda text: None)
    try:
        event = post.events.get(timeout=10)
        assert isinstance(event, Broke) and 'purpose: here "(nothing)", at bank "predict"' in str(event.error)
    finally:
        dial.close()
        asking.close()


def test_noise_is_drawn_anew(tmp_path):
    files, _session, ids = federation(tmp_path, run='defences = ["gaussian-noise:std=0.5"]')
    with serving(files) as asking:
        asking.meet()
        first, second = (outputs_of(asking.predict(spell(ids[:20], asking.run_))) for _ in range(2))
    assert not torch.equal(first, second) and torch.isfinite(first).all()


def test_ids_that_a_party_lacks_are_named_and_the_rest_is_predicted(tmp_path):
    files, _session, ids = federation(tmp_path, parties=THREE)
    asked = ["c295", "c5", "c15", " C100 ", "c100", "stranger", "", ids[0]]
    with serving(files) as asking:
        asking.meet()
        answers = asking.predict(spell(asked, asking.run_))
        again = asking.predict(spell(asked, asking.run_))
    assert [one.missing for one in answers] == [
        ("bank",),
        ("shop", "tele"),
        ("tele",),
        (),
        (),
        ("bank",),
        ("bank",),
        (),
    ]
    assert [one.outputs is None for one in answers] == [one.outputs is None for one in again]
    assert torch.equal(answers[3].outputs, answers[4].outputs)


def test_a_file_of_ids_becomes_a_file_of_predictions(tmp_path):
    files, session, ids = federation(tmp_path)
    (tmp_path / "people.csv").write_text("customer,note\n" + "".join(f"{one},x\n" for one in [*ids, "c3", "nobody"]))
    with serving(files) as asking:
        record = predict_sheet(
            asking, read_sheet(tmp_path / "people.csv", files["bank"]), tmp_path / "out.csv", lambda *args: None
        )
    assert record["rows"] == len(ids) + 2 and record["predicted"] == len(ids)
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert list(rows[0]) == ["id", "probability_no", "probability_yes", "predicted", "missing_at"]
    expected = torch.softmax(session.predict(torch.arange(len(ids))).double(), dim=1)
    assert [float(row["probability_yes"]) for row in rows[:-2]] == pytest.approx(expected[:, 1].tolist())
    assert [row["predicted"] for row in rows[:-2]] == [("no", "yes")[one] for one in expected.argmax(dim=1)]
    assert [(row["predicted"], row["missing_at"]) for row in rows[-2:]] == [("", "shop"), ("", "bank")]
    assert not list(tmp_path.glob("*.tmp")) and (tmp_path / "out.csv").stat().st_mode & 0o077 == 0


def test_regression_comes_back_in_the_units_of_the_target(tmp_path):
    files, session, ids = federation(tmp_path, regression=True)
    with serving(files) as asking:
        predict_sheet(asking, list(ids), tmp_path / "out.parquet", lambda *args: None)
    table = pl.read_parquet(tmp_path / "out.parquet")
    assert table.columns == ["id", "predicted", "missing_at"]
    trained = Trained.read(files["bank"])
    outputs = session.predict(torch.arange(len(ids)))[:, 0].double() * trained.spread + trained.mean
    assert table["predicted"].to_list() == pytest.approx(outputs.tolist())
    truth = dict(pl.read_csv(tmp_path / "bank.csv").select("customer", "y").iter_rows())
    true = torch.tensor([truth[one] for one in ids])
    assert torch.corrcoef(torch.stack([true, outputs]))[0, 1] > 0.5


def test_fresh_tables_serve_people_and_levels_that_training_never_saw(tmp_path):
    files, _session, ids = federation(tmp_path)
    (tmp_path / "new-bank.csv").write_text("customer,a,b,c\nn1,0.1,0.2,0.3\nn2,,1,-1\n")
    (tmp_path / "new-shop.csv").write_text("customer,town,c,b,a,flag\nN1,Rome,1,2,3,1\n")
    fresh = {name: replace(file, serve=replace(file.serve, table=f"new-{name}.csv")) for name, file in files.items()}
    with serving(fresh) as asking:
        asking.meet()
        answers = asking.predict(spell(["n1", "n2", ids[0]], asking.run_))
    assert torch.isfinite(answers[0].outputs).all()
    assert [one.missing for one in answers] == [(), ("shop",), ("bank",)]


def test_a_defence_that_draws_once_per_record_serves_records_of_training_only(tmp_path):
    files, _session, ids = federation(tmp_path, run='defences = ["column-noise"]')
    book = book_of(Trained.read(files["shop"]))
    assert book is not None and set(book.places) == {tag(one.encode(), files["shop"].run) for one in ids}
    fresh = replace(files["shop"], serve=replace(files["shop"].serve, table="shop.csv"))
    with pytest.raises(CutlayerError, match="once per record"):
        book_of(Trained.read(fresh))
    lines = (tmp_path / "shop.csv").read_text().splitlines()
    (tmp_path / "shop.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    with pytest.raises(RunError, match="as it was in training"):
        book_of(Trained.read(files["shop"]))


def test_every_meeting_begins_at_steps_that_none_had_before(tmp_path):
    files, _session, ids = federation(tmp_path)
    steps = []
    for _ in range(2):
        with serving(files) as asking:
            asking.meet()
            steps.append(asking.session.step)
            asking.meet()
            steps.append(asking.session.step)
            asking.predict(spell(ids[:3], asking.run_))
    assert steps == [count << 32 for count in (1, 2, 3, 4)]
    assert (tmp_path / "shop-run" / COUNTED).read_text() == "4"


def test_what_was_asked_for_is_in_both_ledgers(tmp_path):
    files, _session, ids = federation(tmp_path)
    with serving(files) as asking:
        asking.meet()
        asking.predict(spell(ids[:5], asking.run_))
    for party, kinds in {"bank": ["points", "setup"], "shop": ["points", "embedding"]}.items():
        lines = [json.loads(line) for line in (tmp_path / f"{party}-run" / "ledger.jsonl").read_text().splitlines()]
        assert [line["kind"] for line in lines if "kind" in line] == kinds


def test_models_of_another_training_are_refused(tmp_path):
    files, _session, _ids = federation(tmp_path)
    path = tmp_path / "shop-run" / "serving.json"
    path.write_text(path.read_text().replace("together", "elsewhere"))
    with pytest.raises(RunError, match="same training from shop"), serving(files) as asking:
        asking.meet()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "run.json").unlink(), "finished run"),
        (lambda folder: (folder / "serving.json").unlink(), "serving.json"),
        (lambda folder: (folder / "fitted.json").write_text("{}"), "encoding of a table"),
        (lambda folder: (folder / "models/shop.bottom.safetensors").unlink(), "found none"),
        (lambda folder: (folder / "models/shop.bottom.safetensors").write_bytes(b"x"), "as training wrote it"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_sentence(tmp_path, spoil, says):
    files, _session, _ids = federation(tmp_path)
    spoil(tmp_path / "shop-run")
    with pytest.raises(CutlayerError, match=says):
        trained = Trained.read(files["shop"])
        trained.party(book_of(trained).features)


def test_a_model_that_was_changed_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    files, _session, _ids = federation(tmp_path)
    path = tmp_path / "shop-run/models/shop.bottom.safetensors"
    save_file({key: value + 1 for key, value in load_file(path).items()}, path)
    trained = Trained.read(files["shop"])
    with pytest.raises(RunError, match="sha256"):
        trained.party(book_of(trained).features)


def test_another_manifest_than_that_of_training_is_refused(tmp_path):
    _files, _session, _ids = federation(tmp_path)
    path = tmp_path / "shop.toml"
    path.write_text(path.read_text().replace("epochs = 3", "epochs = 4"))
    from cutlayer.net.party.party_file import read_file

    with pytest.raises(RunError, match=r"epochs: here 3, at shop\.toml 4"):
        Trained.read(read_file(path))


def test_a_feature_party_refuses_rows_that_it_did_not_say_it_has():
    rows = torch.arange(6.0).view(3, 2)
    numbered = Numbered(rows, "cpu")
    numbered.add([2, -1, 0])
    assert numbered.index_select(0, torch.tensor([0, 2])).tolist() == [[4, 5], [0, 1]]
    batch = Batch(0, Phase.PREDICT, torch.empty(0, dtype=torch.int64))
    for wrong in ([1, 1], [1, 3], [1, -1], [2, 0], []):
        talk = answer("shop", "bank", batch, False, Book(None, {}), numbered)
        next(talk)
        with pytest.raises(ProtocolError):
            talk.send(Message(batch, "bank", "shop", Kind.SETUP, torch.tensor(wrong, dtype=torch.int64)))


def test_asking_and_answering_agree_on_numbers():
    numbered = Numbered(torch.arange(3.0)[:, None], "cpu")
    tags = [bytes([place] * TAG) for place in range(3)]
    batch = Batch(0, Phase.PREDICT, torch.empty(0, dtype=torch.int64))
    talks = {
        "bank": ask("bank", ("shop",), batch, tags, lambda has: has[0].nonzero()[:, 0].tolist()),
        "shop": answer("shop", "bank", batch, True, Book(None, {tags[0]: 2, tags[2]: 1}), numbered),
    }
    found = exchange(talks, lambda message: None)
    assert found["shop"].tolist() == found["bank"].tolist() == [0, 2]
    assert numbered.index_select(0, found["shop"]).tolist() == [[2], [1]]


def test_tags_differ_by_salt_and_say_nothing_without_it(tmp_path):
    write_tables(tmp_path)
    run = write_files(tmp_path)["bank"].run
    assert len(tag(b"c1", run)) == TAG
    assert tag(b"c1", run) != tag(b"c1", replace(run, salt="other"))


def test_numbers_start_afresh_when_too_many_are_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr("cutlayer.net.predict.label_side.REMEMBERED", 50)
    files, session, ids = federation(tmp_path)
    expected = session.predict(torch.arange(len(ids)))
    with serving(files) as asking:
        asking.meet()
        for start in range(0, 120, 30):
            answers = asking.predict(spell(ids[start : start + 30], asking.run_))
            assert torch.allclose(outputs_of(answers), expected[start : start + 30], atol=1e-6)
        assert len(asking._numbers) <= 50 and asking.count == 4


class Pretended:
    """A label party that answers by itself, after what went wrong, in order."""

    def __init__(self, *wrong):
        self.wrong, self.met, self.sizes, self.carrier = list(wrong), 0, [], self
        self.said, self.log = [], lambda text: None

    def meet(self):
        self.met += 1

    def attend(self):
        pass

    def predict(self, ids):
        self.sizes.append(len(ids))
        if self.wrong:
            raise self.wrong.pop(0)
        return [Answer(torch.tensor([float(one), 0.0])) for one in ids]


@pytest.fixture
def desk(monkeypatch):
    monkeypatch.setattr("cutlayer.net.predict.request_queue.AGAIN", 0.05)
    made = []

    def make(*wrong):
        made.append(Desk(Pretended(*wrong), lambda text: None))
        return made[-1]

    yield make
    for one in made:
        if one._thread.is_alive():
            one.close()


def test_requests_that_wait_are_joined_and_each_gets_its_own_answers(desk):
    one = desk()
    waiting = [one.submit([b"%d" % number] * (number + 1), 10) for number in range(5)]
    one.open()
    for number, future in enumerate(waiting):
        found = future.result(10)
        assert [float(answer.outputs[0]) for answer in found] == [number] * (number + 1)
    assert one.asking.sizes == [15] and one.asking.met == 1


def test_a_request_is_tried_again_after_a_party_started_again(desk):
    one = desk(Regroup("shop"))
    one.open()
    assert len(one.submit([b"1"], 10).result(10)) == 1 and one.asking.met == 2


@pytest.mark.parametrize("error", [ProtocolError("Expected this."), KeyError("a secret id")])
def test_a_request_is_lost_with_an_error_and_the_next_one_is_answered(desk, error):
    one = desk(error)
    one.open()
    with pytest.raises(Lost):
        one.submit([b"1"], 10).result(10)
    assert len(one.submit([b"2"], 10).result(10)) == 1
    assert "secret" not in one.trouble and one.ready


def test_too_many_requests_are_turned_away_and_old_ones_dropped(desk):
    one = desk()
    old = one.submit([b"1"] * 4096, 0.0)
    for _ in range(15):
        one.submit([b"1"] * 4096, 10)
    with pytest.raises(Busy):
        one.submit([b"1"], 10)
    one.open()
    wait_for(lambda: not one._waiting)
    assert len(one.submit([b"1"], 10).result(10)) == 1
    assert not old.done() and sum(one.asking.sizes) == 15 * 4096 + 1


def test_a_file_goes_on_where_it_was_when_a_party_starts_again(tmp_path, monkeypatch):
    monkeypatch.setattr("cutlayer.net.predict.id_file.MOST", 2)
    files, _session, _ids = federation(tmp_path)
    asking = Pretended()
    asking.run_, asking.trained = files["bank"].run, Trained.read(files["bank"])
    predict = asking.predict

    def interrupted(ids):
        if asking.met == 1 and asking.sizes:
            raise Regroup("shop")
        return predict(ids)

    asking.predict = interrupted
    record = predict_sheet(asking, ["1", "2", "3", "4", "5"], tmp_path / "out.csv", lambda *args: None)
    assert record["predicted"] == 5 and asking.met == 2 and asking.sizes == [2, 2, 1]
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row["id"] for row in rows] == ["1", "2", "3", "4", "5"]


def test_figures_are_what_prometheus_reads():
    figures = Figures()
    figures.request(200, 0.02)
    figures.request(503, 20.0)
    figures.rows(3, 1, 0)
    text = figures.text({"shop": True, "tele": False})
    assert 'cutlayer_requests_total{code="200"} 1' in text and "cutlayer_errors_total 1" in text
    assert 'cutlayer_request_seconds_bucket{le="0.025"} 1' in text
    assert 'cutlayer_request_seconds_bucket{le="+Inf"} 2' in text and "cutlayer_request_seconds_count 2" in text
    assert 'cutlayer_party_connected{party="tele"} 0' in text
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"\})? [0-9.]+', line), line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bank.toml"], "Expected --ids FILE and --out FILE, or --serve"),
        (["bank.toml", "--ids", "bank.csv"], "Expected --ids FILE and --out FILE, or --serve"),
        (["bank.toml", "--serve", "--ids", "a", "--out", "b"], "or --serve"),
        (["bank.toml", "--serve", "--forever"], "--forever at a feature party"),
        (["shop.toml", "--serve"], "it answers only"),
        (["shop.toml"], "train first"),
        (["bank.toml", "--ids", "bank.csv", "--out", "bank.csv"], "another file"),
        (
            ["bank.toml", "--ids", "bank.csv", "--out", "ids.csv"],
            "The file ids.csv exists already; choose another --out.",
        ),
        (["bank.toml", "--ids", "bank.csv", "--out", "nowhere/out.csv"], "a folder that exists"),
        (["bank.toml", "--ids", "none.csv", "--out", "out.csv"], "found none"),
        (["bank.toml", "--ids", "ids.csv", "--out", "out.csv"], "id column 'customer'"),
    ],
)
def test_mistakes_on_the_command_line_are_said_in_one_sentence(tmp_path, monkeypatch, capsys, arguments, says):
    write_tables(tmp_path)
    write_files(tmp_path)
    (tmp_path / "ids.csv").write_text("person\nc1\n")
    monkeypatch.chdir(tmp_path)
    assert main(["predict", *arguments]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


@pytest.fixture
def start(nursery, tmp_path):
    """Start a real process by a verb and a party's name; it ends with the test."""
    made = []

    def start(verb, name, *options):
        log = tmp_path / f"log-{len(made)}.txt"
        made.append(nursery.start(name, [verb, tmp_path / f"{name}.toml", *options, "--insecure"], log))
        return made[-1]

    yield start
    for one in made:
        if not one.ended:
            one.kill()


def test_train_predict_and_serve_with_real_processes(tmp_path, start):
    http = free_port()
    write_tables(tmp_path)
    write_files(tmp_path, port=free_port(), http=http, seed=False)
    trained = [start("party", name) for name in ("bank", "shop")]
    assert [one.end() for one in trained] == [0, 0], [one.stderr for one in trained]

    (tmp_path / "people.csv").write_text("customer\n" + "".join(f"c{number}\n" for number in range(300)))
    shop = start("predict", "shop", "--forever")
    batch = start("predict", "bank", "--ids", tmp_path / "people.csv", "--out", tmp_path / "out.csv", "--json")
    assert batch.end() == 0, batch.stderr
    rows = {row["id"]: row for row in csv.DictReader((tmp_path / "out.csv").read_text().splitlines())}
    assert rows["c3"]["missing_at"] == "shop" and rows["c290"]["missing_at"] == "bank" and rows["c99"]["predicted"]

    bank = start("predict", "bank", "--serve")
    with httpx.Client(base_url=f"http://127.0.0.1:{http}", timeout=30) as client:
        until(client, 200)
        reply = client.post("/predict", json={"ids": ["c99", "c3", 7]}, headers={"X-Request-ID": "r-1"})
        assert reply.status_code == 200 and reply.headers["x-request-id"] == "r-1"
        said = reply.json()
        assert said["request_id"] == "r-1" and said["predictions"][1]["missing_at"] == ["shop"]
        assert said["predictions"][0]["predicted"] == rows["c99"]["predicted"]
        yes = said["predictions"][0]["probabilities"]["yes"]
        assert yes == pytest.approx(float(rows["c99"]["probability_yes"]), abs=1e-6)
        bad_requests(client)
        with ThreadPoolExecutor(20) as pool:
            replies = pool.map(lambda number: client.post("/predict", json=ask_for(number)), range(20))
            assert {one.status_code for one in replies} == {200}
        figures = client.get("/metrics").text
        assert 'cutlayer_requests_total{code="200"} 21' in figures and 'connected{party="shop"} 1' in figures

        shop.kill()
        until(client, 503)
        assert client.get("/health").json()["missing"] == ["shop"]
        began = time.monotonic()
        lost = client.post("/predict", json={"ids": ["c99"]})
        assert lost.status_code == 503 and lost.json()["missing"] == ["shop"] and time.monotonic() - began < 12
        assert 'connected{party="shop"} 0' in client.get("/metrics").text

        start("predict", "shop", "--forever")
        until(client, 200)
        assert client.post("/predict", json={"ids": ["c99"]}).json()["predictions"] == said["predictions"][:1]
    bank.send(signal.SIGTERM)
    assert bank.end() == 0
    log = bank.stderr
    assert "predict 200" in log and "r-1" in log and not re.search(r"\bc\d+\b", log)


def until(client, code):
    """Wait until the service's health is as wanted."""
    import httpx

    for _ in range(300):
        try:
            if client.get("/health").status_code == code:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"health never became {code}")


def ask_for(number):
    return {"ids": [f"c{person}" for person in range(10 * number, 10 * number + 40)]}


def bad_requests(client):
    """Each gets its status code and one sentence that does not repeat what came."""
    for body, code in [
        (b"no json", 400),
        (b'{"ids": []}', 422),
        (b'{"ids": "secret-17"}', 422),
        (b'{"ids": [1.5]}', 422),
        (b'{"ids": [true]}', 422),
        (b'{"ids": ["secret-17"], "more": 1}', 422),
        (json.dumps({"ids": ["secret-17" * 40]}).encode(), 422),
        (json.dumps({"ids": ["secret-17"] * 4097}).encode(), 422),
        (b" " * (3 << 20), 413),
    ]:
        reply = client.post("/predict", content=body, headers={"Content-Type": "application/json"})
        assert reply.status_code == code, (body[:40], reply.text)
        assert reply.json()["error"].startswith("Expected") and "secret" not in reply.text
    assert client.get("/predict").status_code == 405 and client.get("/nothing").status_code == 404
    assert len(client.get("/health", headers={"X-Request-ID": "a b\tc"}).headers["x-request-id"]) == 16
    described = client.get("/openapi.json").json()
    assert described["components"]["schemas"]["Question"]["examples"] == [{"ids": ["c17", "c23"]}]
