"""Columns that leak are shown for the setups under which the attack applies."""

from cutlayer.cli import main

TABLE = ["--data", "wine", "--epochs", "1", "--batch-size", "32", "--workers", "1"]


def test_an_attack_that_does_not_apply_undefended_is_reported_for_the_rest(tmp_path):
    """code-inversion needs codes: without a defence its cell has no metric, and its columns come from under hash."""
    attacks = ["--attack", "code-inversion:steps=5,restarts=1", "--attack", "decoder:epochs=2"]
    setups = ["--defence", "none", "--defence", "hash:bits=8"]
    assert main(["audit", *TABLE, *setups, *attacks, "--max-accuracy-loss", "100", "--out", str(tmp_path / "a")]) == 0
    text = (tmp_path / "a" / "report.md").read_text()
    assert "code-inversion" in text and "per column" in text
