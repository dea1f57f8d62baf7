"""Datasets by name."""

import pytest

from cutlayer.data import describe, load, names
from cutlayer.data.catalogue import loaders
from cutlayer.data.sets.fate import fate_motor
from cutlayer.errors import ConfigError


def test_a_file_may_hold_several_datasets():
    assert loaders()["fate-motor"] is fate_motor
    assert [about.name for about in describe()] == list(names()) == sorted(names())


def test_unknown_names_and_options_are_refused():
    with pytest.raises(ConfigError, match=r"Unknown dataset 'diggits'.*Did you mean 'digits'"):
        load("diggits")
    with pytest.raises(ConfigError, match="Unknown option of wine 'partys': expected one of parties, label_party"):
        load("wine", partys=3)
    with pytest.raises(ConfigError, match="Expected limit=0 to be at least 1"):
        load("wine", limit=0)
    with pytest.raises(ConfigError, match="parties"):
        load("wine", parties=14)
