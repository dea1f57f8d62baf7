"""cutlayer bench: mistakes; the benchmarks themselves are tested in tests/bench."""

from cutlayer.cli import main


def test_an_unknown_benchmark_is_refused(capsys):
    assert main(["bench", "press"]) == 2
    assert "Unknown benchmark 'press'" in capsys.readouterr().err
