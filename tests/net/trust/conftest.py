"""A small federation, at a fixed moment."""

import pytest

from cutlayer.net.trust.authority import Authority
from tests.helpers.certificates import NOW, join


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Two parties and their authority, which no test changes."""
    folder = tmp_path_factory.mktemp("shared")
    authority = Authority.create(folder / "authority", "ours", now=NOW)
    return authority, join(authority, folder / "bank", "bank", NOW), join(authority, folder / "shop", "shop", NOW)


@pytest.fixture
def authority(tmp_path):
    return Authority.create(tmp_path / "authority", "ours", now=NOW)


@pytest.fixture
def bank(authority, tmp_path):
    return join(authority, tmp_path / "bank", "bank", NOW)


@pytest.fixture
def shop(authority, tmp_path):
    return join(authority, tmp_path / "shop", "shop", NOW)
