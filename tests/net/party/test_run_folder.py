"""A party's folder: what is damaged is skipped, and a full disk leaves what was there."""

import errno
import os
import stat

import pytest
import torch

from cutlayer.errors import RunError
from cutlayer.net.party.run_folder import KEPT, RunFolder


def tensors(value):
    return {"w": torch.full((3, 4), float(value)), "n": torch.tensor([value])}


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    for step in (7, 14):
        folder.save(step, tensors(step), {"epoch": step, "history": [{"loss": 0.1}]})
    return folder


def path(folder, step):
    return folder.checkpoints / f"step-{step}.safetensors"


def test_a_checkpoint_comes_back_in_another_process(folder):
    again = RunFolder(folder.path)
    assert again.steps() == [7, 14]
    restored, facts = again.load(14)
    assert facts == {"epoch": 14, "history": [{"loss": 0.1}]}
    assert all(torch.equal(restored[name], value) for name, value in tensors(14).items())


def test_only_the_newest_are_kept(folder):
    for step in (21, 28, 35):
        folder.save(step, tensors(step), {})
    assert folder.steps() == RunFolder(folder.path).steps() == [21, 28, 35][-KEPT:]


def test_only_its_owner_can_read_the_folder(folder):
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.private_seed()
    for file in (path(folder, 7), folder.path / "private-seed"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("place", [0, 7, 8, 40, 200, -33, -32, -1])
def test_one_flipped_bit_anywhere_sends_back_to_the_checkpoint_before(folder, place):
    data = bytearray(path(folder, 14).read_bytes())
    data[place] ^= 1
    path(folder, 14).write_bytes(data)
    again = RunFolder(folder.path)
    assert again.steps() == [7]
    with pytest.raises(RunError, match=r"step 14 .* is damaged"):
        again.load(14)


@pytest.mark.parametrize("length", [0, 1, 7, 31, 32, 33, 64, 200, -32, -1])
def test_a_torn_file_sends_back_to_the_checkpoint_before(folder, length):
    path(folder, 14).write_bytes(path(folder, 14).read_bytes()[:length])
    assert RunFolder(folder.path).steps() == [7]


def test_other_files_in_the_folder_do_not_matter(folder):
    for name in ("step-x.safetensors", "step-21.safetensors.tmp", "notes.txt", "step-21"):
        (folder.checkpoints / name).write_bytes(b"?")
    assert RunFolder(folder.path).steps() == [7, 14]


def test_going_back_forgets_what_came_later(folder):
    folder.forget(after=7)
    assert folder.steps() == RunFolder(folder.path).steps() == [7]
    folder.forget()
    assert folder.steps() == []


@pytest.mark.parametrize("call", ["fsync", "open", "replace"])
def test_a_full_disk_leaves_the_old_checkpoints_and_nothing_half_written(folder, monkeypatch, call):
    def full(*arguments, **more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = path(folder, 14).read_bytes()
    with monkeypatch.context() as patch:
        if call == "replace":
            patch.setattr("pathlib.Path.replace", full)
        else:
            patch.setattr(os, call, full)
        for step in (14, 21):
            with pytest.raises(OSError) as caught:
                folder.save(step, tensors(99), {})
            assert caught.value.errno == errno.ENOSPC
    assert sorted(file.name for file in folder.checkpoints.iterdir()) == ["step-14.safetensors", "step-7.safetensors"]
    assert path(folder, 14).read_bytes() == before and RunFolder(folder.path).steps() == [7, 14] == folder.steps()
    folder.save(21, tensors(21), {})
    assert folder.steps() == [7, 14, 21]


def test_an_alignment_is_of_the_ids_it_was_made_of(folder):
    assert folder.alignment("ids") is None and len(folder.rows()) == 0
    folder.keep_alignment("first", torch.tensor([3, 1, 2]), "ids")
    again = RunFolder(folder.path)
    assert again.alignment("ids") == "first" and again.rows().tolist() == [3, 1, 2]
    assert again.alignment("ids of another table") is None


@pytest.mark.parametrize("place", [3, 60, -40, -1])
def test_a_damaged_alignment_is_none(folder, place):
    folder.keep_alignment("first", torch.arange(5), "ids")
    file = folder.path / "alignment.safetensors"
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    assert folder.alignment("ids") is None


def test_only_a_folder_in_which_nothing_was_done_is_blank(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.private_seed()
    folder.write_json("manifest", {})
    assert folder.is_blank
    folder.keep_alignment("first", torch.arange(5), "ids")
    assert not folder.is_blank
    folder.forget_alignment()
    folder.forget_alignment()
    assert folder.is_blank
    for name in ("run", "pending", "farewell"):
        folder.write_json(name, {})
        assert not folder.is_blank
        folder.remove(name)
    path(folder, 7).write_bytes(b"damaged")
    assert not folder.is_blank


def test_a_private_seed_is_drawn_once(folder, tmp_path):
    seed = folder.private_seed()
    assert seed == folder.private_seed() == RunFolder(folder.path).private_seed()
    assert seed != RunFolder(tmp_path / "other").private_seed()


def test_small_facts_are_kept_and_removed(folder):
    assert folder.read_json("run") is None
    folder.write_json("run", {"a": [1]})
    assert RunFolder(folder.path).read_json("run") == {"a": [1]}
    (folder.path / "run.json").write_text("{")
    with pytest.raises(RunError, match="damaged"):
        folder.read_json("run")
    folder.remove("run")
    folder.remove("run")
    assert folder.read_json("run") is None
