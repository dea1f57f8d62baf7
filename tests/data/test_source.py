import functools
import gzip
import hashlib
import http.server
import io
import lzma
import tarfile
import threading
import zipfile
from urllib.request import urlopen

import pytest

from cutlayer.data import source
from cutlayer.data.source import File, cache_folder, find, locate, read, read_tar
from cutlayer.errors import DataError

CONTENT = b"1,2\n3,4\n"
SUM = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def reachable(folder, tmp_path, monkeypatch):
    """A folder that can be downloaded from by file:// addresses."""
    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    served = tmp_path / "served"
    served.mkdir()
    return served


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)],
    ids=["as-is", "gz", "xz"],
)
def test_a_file_may_be_packed(put, suffix, pack):
    put("set/a.csv" + suffix, pack(CONTENT))
    assert read(File("set/a.csv")) == CONTENT


def test_the_users_folder_comes_before_the_cache(put):
    cached = cache_folder() / "set/a.csv"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"cached")
    assert find(File("set/a.csv")) == cached
    mine = put("set/a.csv", "mine")
    assert find(File("set/a.csv")) == mine


def test_a_system_folder_holds_the_file_by_its_bare_name(folder, tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CONTENT))
    assert read(File("set/a.csv", folders=(str(tmp_path),))) == CONTENT


def test_a_missing_file_names_every_place_and_what_to_do(folder):
    with pytest.raises(DataError) as caught:
        find(File("set/a.csv", hint="It is on the moon."), File("other/b.csv"))
    message = str(caught.value)
    for part in (
        "set/a.csv or other/b.csv",
        str(folder / "set"),
        str(cache_folder() / "other"),
        "CUTLAYER_DATA",
    ):
        assert part in message
    assert message.endswith("It is on the moon.")


def test_without_the_variable_the_message_says_so(folder, monkeypatch):
    monkeypatch.delenv("CUTLAYER_DATA")
    with pytest.raises(DataError, match="CUTLAYER_DATA is not set"):
        find(File("set/a.csv"))


def test_a_failed_download_says_why(folder):
    with pytest.raises(DataError, match=r"downloading https://example.org/a failed \(no network in tests\)"):
        find(File("set/a.csv", "https://example.org/a"))


def test_downloads_over_http_and_keeps_the_file(reachable, monkeypatch):
    (reachable / "a.csv.gz").write_bytes(gzip.compress(CONTENT))
    handler = functools.partial(_Quiet, directory=str(reachable))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = File("set/a.csv", f"http://127.0.0.1:{server.server_port}/a.csv.gz", sha256=SUM)
        assert read(file) == CONTENT
        server.shutdown()
    assert locate(file) == cache_folder() / "set/a.csv"
    assert read(file) == CONTENT


def test_takes_one_member_of_a_zip(reachable):
    with zipfile.ZipFile(reachable / "a.zip", "w") as archive:
        archive.writestr("inner/a.csv", CONTENT)
    url = (reachable / "a.zip").as_uri()
    assert read(File("set/a.csv", url, member="inner/a.csv", sha256=SUM)) == CONTENT
    with pytest.raises(DataError, match=r"no item named 'inner/b\.csv'"):
        read(File("set/b.csv", url, member="inner/b.csv"))


def test_a_large_archive_is_kept_as_served(reachable):
    packed = gzip.compress(CONTENT)
    (reachable / "files").write_bytes(packed)
    file = File("set/a.tar", (reachable / "files").as_uri(), served=hashlib.sha256(packed).hexdigest())
    assert find(file) == cache_folder() / "set/a.tar.gz"
    assert read(file) == CONTENT


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sha256": "0" * 64}, "expected sha256 000"),
        ({"served": "0" * 64}, "expected sha256 000"),
        ({"size": 3}, "more than 3 bytes"),
        ({"size": 3, "served": SUM}, "more than 3 bytes"),
    ],
)
def test_a_wrong_or_too_large_download_leaves_nothing(reachable, change, reason):
    (reachable / "a.csv").write_bytes(CONTENT)
    with pytest.raises(DataError, match=reason):
        find(File("set/a.csv", (reachable / "a.csv").as_uri(), **change))
    assert not list((cache_folder() / "set").iterdir())


def test_damaged_and_oversized_files_are_refused(put):
    put("set/a.csv.gz", gzip.compress(CONTENT)[:-4])
    with pytest.raises(DataError, match="Could not read"):
        read(File("set/a.csv"))
    put("set/b.csv.gz", gzip.compress(b"0" * 1000))
    with pytest.raises(DataError, match="more than 10 bytes"):
        read(File("set/b.csv", size=10))


def test_reads_plain_members_of_a_tar_and_nothing_else(put, folder):
    path = put("set/a.tar.xz", _tar({"x/one.txt": b"1", "../two.txt": b"22"}, link="x/link"))
    assert list(read_tar(path)) == [("x/one.txt", b"1"), ("../two.txt", b"22")]
    assert sorted(place.name for place in folder.rglob("*")) == ["a.tar.xz", "set"]
    with pytest.raises(DataError, match="more than 2 bytes"):
        list(read_tar(path, most=2))
    with pytest.raises(DataError, match="Could not read"):
        list(read_tar(put("set/b.tar", b"no archive" * 100)))


def test_the_cache_is_where_the_system_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert source.cache_folder() == tmp_path / "cutlayer"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert source.cache_folder() == tmp_path / ".cache" / "cutlayer"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


def _tar(files, link):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        linked = tarfile.TarInfo(link)
        linked.type, linked.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(linked)
    return out.getvalue()
