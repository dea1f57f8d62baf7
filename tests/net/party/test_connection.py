"""A connection: one set-up for training, aligning and prediction, released whatever happens."""

import errno
import json

import pytest

from cutlayer.errors import ConfigError, DataError, Diverged, RunError
from cutlayer.net.party.connection import Connection, Purpose, report_error
from cutlayer.net.party.ledger import read
from cutlayer.net.party.own_data import TooFewRows
from cutlayer.net.peers.events import PeerJoined, PeerLost, Stopped
from tests.helpers.finished_run import write_files, write_tables
from tests.helpers.mailboxes import make_inbox, note_arrives, unconfirmed
from tests.helpers.waiting import free_port


@pytest.mark.parametrize(
    ("name", "error", "notes"),
    [
        ("bank", Diverged("away"), 1),
        ("bank", RunError("missing"), 0),
        ("bank", TooFewRows(3), 1),
        ("shop", Stopped("bank", "an error"), 0),
        ("shop", DataError("the column income"), 1),
    ],
)
def test_who_stops_says_so_without_a_word_of_data_and_who_misses_a_peer_lets_the_others_wait(
    monkeypatch, name, error, notes
):
    here, peer = make_inbox(name, ("bank", "shop")), "shop" if name == "bank" else "bank"
    monkeypatch.setattr(here.mailbox, "wait_confirmed", lambda peers, timeout: None)
    report_error(here, error)
    why = f"an error of its own ({type(error).__name__}): ask {name} what it said."
    assert [json.loads(frame.note.text) for frame in unconfirmed(here.mailbox, peer)] == [
        {"who": name, "why": why}
    ] * notes


def test_where_all_have_too_few_rows_in_common_the_label_party_hangs_up_first():
    shop = make_inbox("shop", ("bank", "shop"))
    shop.mailbox.events.put(PeerJoined("bank", False))
    note_arrives(shop.mailbox, "bank", "stopped", '{"why": "too few rows"}', generation=0)
    shop.mailbox.put(PeerLost("bank", "it hung up"))
    report_error(shop, TooFewRows(3))
    assert unconfirmed(shop.mailbox, "bank") == [] and shop.lines == []
    assert isinstance(shop.mailbox.events.get(timeout=0), PeerLost)  # it waited for the word, and no longer


@pytest.fixture
def bank(tmp_path):
    write_tables(tmp_path)
    return write_files(tmp_path, port=free_port())["bank"]


def test_a_folder_is_locked_while_a_connection_lasts_and_free_after_one_that_failed(bank):
    with pytest.raises(ConfigError, match="Expected `keys` in"):
        Connection(bank, Purpose.TRAIN)
    with (
        Connection(bank, Purpose.TRAIN, insecure=True),
        pytest.raises(ConfigError, match="Another process is using"),
    ):
        Connection(bank, Purpose.PREDICT, insecure=True)
    with Connection(bank, Purpose.PREDICT, insecure=True):
        pass


def test_the_ledger_is_opened_with_the_links_and_not_before(bank):
    with Connection(bank, Purpose.TRAIN, insecure=True, log=lambda text: None) as connection:
        assert not (bank.folder / "ledger.jsonl").exists()
        connection.open()
        assert connection.port and len(list(read(bank.folder / "ledger.jsonl"))) == 1


def test_processes_with_another_purpose_have_other_manifests_and_predictions_other_messages(bank):
    runs, purposes = [], []
    for purpose in Purpose:
        with Connection(bank, purpose, insecure=True) as connection:
            runs.append(connection.mailbox.run)
            purposes.append(connection.manifest.get("purpose"))
    assert purposes == [None, "align", "predict"]
    assert runs[0] == runs[1] == bank.run.digest != runs[2]


def test_an_error_in_the_block_is_reported_to_the_others_and_a_full_disk_is_one_sentence(bank, monkeypatch):
    reported = []
    monkeypatch.setattr("cutlayer.net.party.connection.report_error", lambda inbox, error: reported.append(str(error)))
    full = OSError(errno.ENOSPC, "full")
    for error, kind, text in ((DataError("odd"), DataError, "odd"), (full, RunError, "The disk is full while writing")):
        with (
            pytest.raises(kind, match=text),
            Connection(bank, Purpose.TRAIN, insecure=True, log=lambda text: None) as connection,
            connection.opened(),
        ):
            raise error
    assert reported == ["odd"]
