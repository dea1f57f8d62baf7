"""The public API is a list. Adding to it or removing from it is a decision, made here."""

import cutlayer


def test_all_is_exact():
    assert sorted(cutlayer.__all__) == cutlayer.__all__
    assert cutlayer.__all__ == [
        "Asks", "Attack", "Channel", "Concat", "ConfigError", "Constant", "Cosine", "Cut", "CutlayerError",
        "DataError", "Defence", "Finding", "Form", "Guess", "Hints", "Keep", "Kind", "Known", "Local", "Manifest",
        "Message", "Milestones", "Optimiser", "Own", "Phase", "Place", "Plan", "ProtocolError", "Recipe", "Report",
        "Role", "Run", "RunError", "Secret", "Setting", "Steps", "Sum", "Target", "Transcript", "View",
        "__version__", "attacks", "audit", "data", "defences", "judge", "metrics", "models", "train",
    ]  # fmt: skip
    for name in cutlayer.__all__:
        assert getattr(cutlayer, name) is not None
