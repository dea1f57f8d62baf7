"""The ledger: a chain in which a change shows, with the number of its line."""

import errno
import hashlib
import json
import os

import pytest
import torch

from cutlayer.errors import RunError
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.net.party import ledger as module
from cutlayer.net.party.ledger import Ledger, only_aligned, read
from cutlayer.wire import Encoding


def message(step, payload=None, encoding=Encoding.PLAIN):
    payload = torch.full((2, 3), float(step)) if payload is None else payload
    return Message(Batch(step, Phase.TRAIN, torch.arange(2)), "shop", "bank", Kind.EMBEDDING, payload, encoding)


def opened(path):
    return Ledger(path, run="ab", defences=["max-norm"])


@pytest.fixture
def path(tmp_path):
    ledger = opened(tmp_path / "ledger.jsonl")
    for step in range(5):
        ledger.write(message(step))
    ledger.close()
    return ledger.path


def lines(path):
    return path.read_bytes().splitlines(keepends=True)


def test_a_line_says_what_left_and_not_what_it_was(path):
    first, second, *_ = read(path)
    assert first["opened"] and first["run"] == "ab" and first["defences"] == ["max-norm"]
    digest = hashlib.sha256(torch.zeros(2, 3).numpy().tobytes()).hexdigest()
    del second["chain"]
    expected = {"step": 0, "phase": "train", "to": "bank", "kind": "embedding", "bytes": 24, "sha256": digest}
    assert second == expected


def test_whether_more_than_an_alignment_left(path, tmp_path):
    assert only_aligned(tmp_path / "none.jsonl") and not only_aligned(path)
    ledger = opened(tmp_path / "other.jsonl")
    align = Message(Batch(0, Phase.ALIGN, torch.arange(2)), "shop", "bank", Kind.POINTS, torch.zeros(2))
    ledger.write(align)
    assert only_aligned(ledger.path)
    ledger.write(message(0))
    assert not only_aligned(ledger.path)
    ledger.close()


def test_bytes_and_hash_are_those_that_crossed(path):
    ledger = opened(path)
    ledger.write(message(9, torch.ones(2, 8), Encoding.BITS))
    ledger.close()
    last = list(read(path))[-1]
    assert last["bytes"] == 2 and last["sha256"] == hashlib.sha256(b"\xff\xff").hexdigest()


@pytest.mark.parametrize("number", range(1, 7))
def test_a_changed_line_is_found(path, number):
    all_lines = lines(path)
    facts = json.loads(all_lines[number - 1])
    facts["bytes" if number > 1 else "run"] = 7
    all_lines[number - 1] = json.dumps(facts).encode() + b"\n"
    path.write_bytes(b"".join(all_lines))
    with pytest.raises(RunError, match=f"breaks at line {number}:"):
        list(read(path))


@pytest.mark.parametrize("number", range(1, 6))
def test_a_removed_line_is_found_where_it_was(path, number):
    all_lines = lines(path)
    del all_lines[number - 1]
    path.write_bytes(b"".join(all_lines))
    with pytest.raises(RunError, match=f"breaks at line {number}:"):
        list(read(path))


@pytest.mark.parametrize("number", range(1, 6))
def test_swapped_lines_are_found(path, number):
    all_lines = lines(path)
    all_lines[number - 1 : number + 1] = reversed(all_lines[number - 1 : number + 1])
    path.write_bytes(b"".join(all_lines))
    with pytest.raises(RunError, match=f"breaks at line {number}:"):
        list(read(path))


def test_a_line_that_is_no_ledgers_is_found(path):
    all_lines = lines(path)
    for nonsense in (b"hello\n", b"[]\n", b'{"step": 3}\n', b"\n", b"\xff\xfe\n", b"7\n", b"[" * 9999 + b"\n"):
        path.write_bytes(b"".join([*all_lines[:2], nonsense, *all_lines[2:]]))
        with pytest.raises(RunError, match="Line 3"):
            list(read(path))


@pytest.mark.parametrize("cut", [1, 5, 100])
def test_a_torn_last_line_is_repaired_and_the_chain_goes_on(path, cut):
    path.write_bytes(path.read_bytes()[:-cut])
    ledger = opened(path)
    ledger.write(message(4))
    ledger.close()
    lines = list(read(path))
    assert [line.get("step") for line in lines] == [None, 0, 1, 2, 3, None, 4]


@pytest.mark.parametrize("tail_bytes", [1, 50, 1 << 14])
def test_the_last_line_is_found_however_long_the_file_is(path, monkeypatch, tail_bytes):
    monkeypatch.setattr(module, "TAIL_BYTES", tail_bytes)
    last = json.loads(lines(path)[-1])["chain"]
    for torn in (b"", b'{"step": 5, "ph'):
        path.write_bytes(b"".join(lines(path)[:6]) + torn)
        ledger = opened(path)
        ledger.close()
        assert list(read(path))[5]["chain"] == last and len(lines(path)) == 7


def test_an_empty_or_wholly_torn_file_begins_anew(tmp_path):
    for torn in (b"", b'{"opened'):
        (tmp_path / "ledger.jsonl").write_bytes(torn)
        opened(tmp_path / "ledger.jsonl").close()
        assert len(list(read(tmp_path / "ledger.jsonl"))) == 1


def test_a_ledger_whose_last_line_is_no_ledgers_is_not_continued(path):
    path.write_bytes(path.read_bytes() + b"hello\n")
    with pytest.raises(RunError, match="last line"):
        opened(path)


@pytest.mark.parametrize("written", [0, 20])
def test_a_full_disk_leaves_whole_lines_only_and_the_chain_intact(path, monkeypatch, written):
    ledger, write = opened(path), os.write
    before = path.read_bytes()

    def full(file, data):
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[:written])  # what a nearly full disk does

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError) as caught:
            ledger.write(message(5))
    assert caught.value.errno == errno.ENOSPC and path.read_bytes() == before
    ledger.write(message(5))
    ledger.close()
    assert list(read(path))[-1]["step"] == 5
