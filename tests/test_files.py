"""A file is written whole or not at all."""

import os
import stat

import pytest

from cutlayer.files import replacing, write_bytes, write_text


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    write_bytes(tmp_path / "a.txt", b"old")

    def full(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        write_bytes(tmp_path / "a.txt", b"new")
    assert (tmp_path / "a.txt").read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_a_private_file_is_its_owners_from_the_first_byte(tmp_path):
    with replacing(tmp_path / "key", private=True) as temporary:
        assert mode(temporary) == 0o600
        temporary.write_bytes(b"secret")
    assert mode(tmp_path / "key") == 0o600


def test_a_public_file_has_the_mode_that_the_user_chose(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "text")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a.txt") == 0o640


def test_no_link_is_followed(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "out.csv").symlink_to(tmp_path / "precious")
    write_text(tmp_path / "out.csv", "new")
    assert (tmp_path / "precious").read_text() == "mine" and not (tmp_path / "out.csv").is_symlink()


def test_a_block_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), replacing(tmp_path / "a.txt") as temporary:
        temporary.write_text("half")
        raise KeyError("no")
    assert list(tmp_path.iterdir()) == []
