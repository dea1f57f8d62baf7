import json

import pytest

from cutlayer import bench
from cutlayer.cli import main
from cutlayer.errors import ConfigError


def test_the_benchmark_reports_both_parties_and_the_bytes(capsys):
    assert main(["bench", "psi", "--size", "60", "--repeats", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert next(iter(result)) == "ratio" and result["ratio"] > 0 and result["ids_each"] == 60
    assert result["bytes_sent_leader"] == 60 * 32 + 30 * 16 and result["bytes_sent_follower"] == 60 * (32 + 16)
    assert all(result[f"{what}_{who}"] > 0 for what in ("seconds", "core_seconds") for who in ("leader", "follower"))


def test_a_size_is_refused_where_there_is_none():
    with pytest.raises(ConfigError, match=r"'hash' has one size only; leave out --size"):
        bench.run("hash", 1, size=3)
