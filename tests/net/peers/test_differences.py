"""Differences between two manifests can be read, and never show a salt."""

from cutlayer.net.party.manifest import manifest_of
from cutlayer.net.peers.differences import differences


def manifest(**settings):
    return manifest_of({"parties": ["bank", "shop"], "label_party": "bank", **settings})


def test_differences_can_be_read():
    ours = manifest(epochs=30, salt="one", defences=["max-norm"])
    theirs = manifest(epochs=31, salt="two", bottoms={"shop": "linear"})
    lines = differences(ours.to_json(), theirs.to_json(), "shop")
    assert 'bottoms.shop: here "default", at shop "linear"' in lines
    assert 'defences: here ["max-norm"], at shop []' in lines
    assert "epochs: here 30, at shop 31" in lines
    assert [line.partition(":")[0] for line in lines] == ["bottoms.shop", "defences", "epochs", "salt"]
    assert not any("one" in line or "two" in line for line in lines), "a salt is never shown"
    assert differences(ours.to_json(), ours.to_json(), "shop") == []
    assert differences({"a": 1}, {}, "shop") == ['a: here 1, at shop "(nothing)"']
