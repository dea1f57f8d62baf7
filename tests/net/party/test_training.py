"""Parties that cannot train: each says why itself, and their folders are free for a corrected run."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from cutlayer.errors import ConfigError, CutlayerError
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.net.party.connection import Connection, Purpose
from cutlayer.net.party.ledger import Ledger
from cutlayer.net.party.training import Training
from tests.helpers.finished_run import write_files, write_tables
from tests.helpers.waiting import free_port


@pytest.fixture
def folder(tmp_path):
    """Two parties whose ids have nothing in common."""
    write_tables(tmp_path)
    shop = tmp_path / "shop.csv"
    shop.write_text(shop.read_text().replace("\nc", "\nshopper"))
    return tmp_path


def run_all(files):
    """Run all parties in threads; what each raised, and what each logged."""
    raised, logged = {}, {name: [] for name in files}

    def run(name, file):
        try:
            with Connection(file, Purpose.TRAIN, insecure=True, log=logged[name].append) as connection:
                Training(connection).run()
        except CutlayerError as error:
            raised[name] = error

    threads = [threading.Thread(target=run, args=item) for item in files.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return raised, logged


@contextmanager
def training(file):
    """A training that is set up and never run."""
    with Connection(file, Purpose.TRAIN, insecure=True) as connection:
        yield Training(connection)


def release(file, phase):
    """Write a ledger as if a message of this phase had left."""
    ledger = Ledger(file.folder / "ledger.jsonl", run=file.run.digest.hex(), defences=[])
    ledger.write(Message(Batch(0, phase, torch.arange(1)), "bank", "shop", Kind.SETUP, torch.ones(1)))
    ledger.close()


def test_too_few_common_rows_are_said_by_every_party_and_a_corrected_run_may_start_in_the_folders(folder):
    files = write_files(folder, port=free_port(), seed=False)
    raised, logged = run_all(files)
    sentence = "Expected at least 10 rows that all parties have, got 0: compare the ids."
    assert {name: str(error) for name, error in raised.items()} == dict.fromkeys(files, sentence)
    assert not any("is gone" in line for lines in logged.values() for line in lines)
    for file in files.values():
        assert json.loads((file.folder / "manifest.json").read_text())["epochs"] == 3
        seed = (file.folder / "private-seed").read_text()
        with training(replace(file, run=replace(file.run, epochs=4))):
            pass
        assert (file.folder / "private-seed").read_text() == seed


def test_a_party_that_stops_is_named_to_those_that_have_no_link_to_it(tmp_path):
    parties = ("bank", "shop", "port")
    write_tables(tmp_path, parties=parties)
    shop = tmp_path / "shop.csv"
    lines = [line.split(",")[0] + ",1,1,1,0,Ulm" for line in shop.read_text().splitlines()[1:]]
    shop.write_text("\n".join(["customer,a,b,c,flag,town", *lines]) + "\n")
    raised, logged = run_all(write_files(tmp_path, parties=parties, port=free_port()))
    assert str(raised["shop"]).endswith("that varies over the common rows, got none.")
    assert str(raised["bank"]) == "shop stopped on an error of its own (DataError): ask shop what it said."
    assert str(raised["port"]) == "shop stopped on an error of its own: ask shop what it said."
    assert not any("is gone" in line for lines in logged.values() for line in lines)


@pytest.mark.parametrize("phase", [Phase.TRAIN, Phase.PREDICT])
def test_a_folder_from_which_more_than_an_alignment_left_belongs_to_its_run(folder, phase):
    file = write_files(folder)["bank"]
    with training(file) as first:
        first.folder.write_json("manifest", file.run.to_json())
    release(file, Phase.ALIGN)
    other = replace(file, run=replace(file.run, epochs=4))
    with training(other):
        pass
    release(file, phase)
    with pytest.raises(ConfigError, match="holds a run with another manifest: epochs: here 4"), training(other):
        pass
