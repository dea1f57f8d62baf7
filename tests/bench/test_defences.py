"""`cutlayer bench defences` finds every defence, and says where it was measured or why it was not."""

import cutlayer.defences
from cutlayer.bench import defences as bench
from cutlayer.defence import Defence
from cutlayer.errors import ConfigError
from cutlayer.spec import find


def test_every_defence_is_there(monkeypatch):
    monkeypatch.setattr(bench, "ROWS", 64)
    result = bench.measure(1)
    ratios = {name.partition(":")[0].partition(",")[0]: value for name, value in result.items()}
    assert set(find(cutlayer.defences, Defence)) <= set(ratios)
    assert result["ratio"] == ratios["vfl-defender"] > 0
    assert "marvell:scale=1.0, two classes" in result and "masquerade, 0/1 columns" in result


def test_one_that_refuses_says_why(monkeypatch):
    class Never(Defence):
        def features(self, values, setting):
            raise ConfigError("Expected something else.")

    monkeypatch.setattr(bench, "ROWS", 64)
    monkeypatch.setattr(bench, "find", lambda package, base: {"never": Never})
    monkeypatch.setattr(bench, "parse", lambda *words: Never())
    sides, refused = bench.sides()
    assert {setup for setup, _ in sides} == {"none"} and refused == {"never": "Expected something else."}
