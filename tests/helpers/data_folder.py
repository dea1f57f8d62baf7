"""An empty data folder, without a way out to the network."""

import urllib.request

import pytest

from cutlayer.data.about import About
from cutlayer.data.sets.mnist import _DEBIAN


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder and cache, and no way out to the network."""

    def refuse(url, timeout):
        raise OSError("no network in tests")

    monkeypatch.setenv("CUTLAYER_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.delitem(_DEBIAN, "fashion_mnist")  # it may be installed
    return tmp_path / "data"


@pytest.fixture
def any_size(monkeypatch):
    """Let loaders take files of a few rows."""
    monkeypatch.setattr(About, "check", lambda self, rows, columns: None)


@pytest.fixture
def put(folder):
    """Write a file below the data folder."""

    def write(path, content):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return target

    return write
