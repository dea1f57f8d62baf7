"""A party's folder: what is damaged is skipped, and a full disk leaves what was there."""

import errno
import os
import stat

import pytest
import torch

from cutlayer.errors import RunError
from cutlayer.net.party.store import KEPT, Store


def tensors(value):
    return {"w": torch.full((3, 4), float(value)), "n": torch.tensor([value])}


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "run")
    for step in (7, 14):
        made.save(step, tensors(step), {"epoch": step, "history": [{"loss": 0.1}]})
    return made


def path(store, step):
    return store.checkpoints / f"step-{step}.safetensors"


def test_a_checkpoint_comes_back_in_another_process(store):
    again = Store(store.folder)
    assert again.steps() == [7, 14]
    found, facts = again.load(14)
    assert facts == {"epoch": 14, "history": [{"loss": 0.1}]}
    assert all(torch.equal(found[name], value) for name, value in tensors(14).items())


def test_only_the_newest_are_kept(store):
    for step in (21, 28, 35):
        store.save(step, tensors(step), {})
    assert store.steps() == Store(store.folder).steps() == [21, 28, 35][-KEPT:]


def test_only_its_owner_can_read_the_folder(store):
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    store.private_seed()
    for one in (path(store, 7), store.folder / "private-seed"):
        assert stat.S_IMODE(one.stat().st_mode) == 0o600


@pytest.mark.parametrize("place", [0, 7, 8, 40, 200, -33, -32, -1])
def test_one_flipped_bit_anywhere_sends_back_to_the_checkpoint_before(store, place):
    data = bytearray(path(store, 14).read_bytes())
    data[place] ^= 1
    path(store, 14).write_bytes(data)
    again = Store(store.folder)
    assert again.steps() == [7]
    with pytest.raises(RunError, match=r"step 14 .* is damaged"):
        again.load(14)


@pytest.mark.parametrize("length", [0, 1, 7, 31, 32, 33, 64, 200, -32, -1])
def test_a_torn_file_sends_back_to_the_checkpoint_before(store, length):
    path(store, 14).write_bytes(path(store, 14).read_bytes()[:length])
    assert Store(store.folder).steps() == [7]


def test_other_files_in_the_folder_do_not_matter(store):
    for name in ("step-x.safetensors", "step-21.safetensors.tmp", "notes.txt", "step-21"):
        (store.checkpoints / name).write_bytes(b"?")
    assert Store(store.folder).steps() == [7, 14]


def test_going_back_forgets_what_came_later(store):
    store.forget(after=7)
    assert store.steps() == Store(store.folder).steps() == [7]
    store.forget()
    assert store.steps() == []


@pytest.mark.parametrize("call", ["fsync", "open", "replace"])
def test_a_full_disk_leaves_the_old_checkpoints_and_nothing_half_written(store, monkeypatch, call):
    def full(*arguments, **more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = path(store, 14).read_bytes()
    with monkeypatch.context() as patch:
        if call == "replace":
            patch.setattr("pathlib.Path.replace", full)
        else:
            patch.setattr(os, call, full)
        for step in (14, 21):
            with pytest.raises(OSError) as caught:
                store.save(step, tensors(99), {})
            assert caught.value.errno == errno.ENOSPC
    assert sorted(one.name for one in store.checkpoints.iterdir()) == ["step-14.safetensors", "step-7.safetensors"]
    assert path(store, 14).read_bytes() == before and Store(store.folder).steps() == [7, 14] == store.steps()
    store.save(21, tensors(21), {})
    assert store.steps() == [7, 14, 21]


def test_an_alignment_is_of_the_ids_it_was_made_of(store):
    assert store.alignment("ids") is None and len(store.rows()) == 0
    store.keep_alignment("first", torch.tensor([3, 1, 2]), "ids")
    again = Store(store.folder)
    assert again.alignment("ids") == "first" and again.rows().tolist() == [3, 1, 2]
    assert again.alignment("ids of another table") is None


@pytest.mark.parametrize("place", [3, 60, -40, -1])
def test_a_damaged_alignment_is_none(store, place):
    store.keep_alignment("first", torch.arange(5), "ids")
    file = store.folder / "alignment.safetensors"
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    assert store.alignment("ids") is None


def test_only_a_folder_in_which_nothing_was_done_is_blank(tmp_path):
    store = Store(tmp_path / "run")
    store.private_seed()
    store.keep_json("manifest", {})
    assert store.is_blank
    store.keep_alignment("first", torch.arange(5), "ids")
    assert not store.is_blank
    store.forget_alignment()
    store.forget_alignment()
    assert store.is_blank
    for name in ("run", "pending", "farewell"):
        store.keep_json(name, {})
        assert not store.is_blank
        store.remove(name)
    path(store, 7).write_bytes(b"damaged")
    assert not store.is_blank


def test_a_private_seed_is_drawn_once(store, tmp_path):
    seed = store.private_seed()
    assert seed == store.private_seed() == Store(store.folder).private_seed()
    assert seed != Store(tmp_path / "other").private_seed()


def test_small_facts_are_kept_and_removed(store):
    assert store.json("run") is None
    store.keep_json("run", {"a": [1]})
    assert Store(store.folder).json("run") == {"a": [1]}
    (store.folder / "run.json").write_text("{")
    with pytest.raises(RunError, match="damaged"):
        store.json("run")
    store.remove("run")
    store.remove("run")
    assert store.json("run") is None
