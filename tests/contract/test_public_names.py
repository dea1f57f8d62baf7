"""The public API is a list. Adding to it or removing from it is a decision, made here."""

import subprocess
import sys

import pytest

import cutlayer


def test_all_is_exact():
    assert sorted(cutlayer.__all__) == cutlayer.__all__ == dir(cutlayer)
    assert cutlayer.__all__ == [
        "Asks", "Attack", "Channel", "Concat", "ConfigError", "Constant", "Cosine", "Cut", "CutlayerError",
        "DataError", "Defence", "Draws", "Finding", "Form", "Guess", "Hints", "Keep", "Kind", "Known", "Local",
        "Manifest", "Message", "Milestones", "Optimiser", "Own", "Phase", "Place", "Plan", "ProtocolError", "Recipe",
        "Report", "Role", "Run", "RunError", "Secret", "Setting", "Settings", "Steps", "Sum", "Target", "Transcript",
        "View", "__version__", "attacks", "audit", "cuts", "data", "defences", "horizontal", "metrics", "models",
        "train",
    ]  # fmt: skip
    for name in cutlayer.__all__:
        assert getattr(cutlayer, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        cutlayer.trian  # noqa: B018


def test_the_command_line_does_not_wait_for_torch():
    code = "import sys, cutlayer.cli; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
