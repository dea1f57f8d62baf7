"""What all agree on: rules that hold or do not, mistakes that are named, differences that can be read."""

import pytest

from cutlayer.errors import ConfigError
from cutlayer.net.party.manifest import manifest_of, require
from cutlayer.net.peers.differences import differences


def manifest(**settings):
    return manifest_of({"parties": ["bank", "shop"], "label_party": "bank", **settings})


PLAIN = manifest(epochs=30)
DEFENDED = manifest(defences=["max-norm", "hash:bits=8"], cut="concat")
SECURE = manifest(cut="secure-sum:bits=48")


@pytest.mark.parametrize(
    ("rule", "holding"),
    [
        ("max-norm", DEFENDED),
        (" hash ", DEFENDED),
        ("hash.bits <= 16", DEFENDED),
        ("hash.bits = 8", DEFENDED),
        ("hash.bits>7", DEFENDED),
        ("epochs <= 30", PLAIN),
        ("epochs >= 30", PLAIN),
        ("batch-size = 128", PLAIN),
        ("lr < 0.01", PLAIN),
        ("label-party = bank", PLAIN),
        ("cut = concat", PLAIN),
        ("cut = secure-sum", SECURE),
        ("secure-sum.bits >= 48", SECURE),
        ("secure-sum.scheme = bfv", SECURE),
        ("lookahead = 0", PLAIN),
    ],
)
def test_a_rule_that_holds_passes(rule, holding):
    require([rule], holding)


@pytest.mark.parametrize(
    ("rule", "lacking"),
    [
        ("max-norm", PLAIN),
        ("hash.bits <= 7", DEFENDED),
        ("hash.bits <= 16", PLAIN),  # no hash at all
        ("epochs < 30", PLAIN),
        ("cut = secure-sum", PLAIN),
        ("secure-sum.bits > 48", SECURE),
        ("label-party = shop", PLAIN),
    ],
)
def test_a_rule_that_does_not_hold_is_named(rule, lacking):
    with pytest.raises(ConfigError, match=f"requires '{rule}', and the manifest does not say so"):
        require([rule], lacking)


@pytest.mark.parametrize(
    "rule", ["", "no gradients please", "hash.bits", "<= 3", "hash bits <= 3", "Max-Norm", "a.b.c = 1"]
)
def test_nonsense_is_no_rule(rule):
    with pytest.raises(ConfigError, match="Expected a rule such as"):
        require([rule], DEFENDED)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("epoch <= 3", "epochs"),  # the nearest
        ("hash.bit <= 3", "Expected a setting of hash"),
        ("label-party <= bank", "Expected numbers to compare"),
        ("epochs <= many", "Expected numbers to compare"),
        ("epochs <=", "Expected numbers to compare"),
        ("defences <= 3", "Expected numbers to compare"),
    ],
)
def test_a_rule_about_something_else_says_what_there_is(rule, says):
    with pytest.raises(ConfigError, match=says):
        require([rule], DEFENDED)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"epoch": 3}, "epochs"),
        ({"batchsize": 3}, "batch_size"),
        ({"epochs": "3"}, "epochs in .run. to be a whole number, got '3'"),
        ({"epochs": 3.5}, "a whole number"),
        ({"epochs": True}, "a whole number"),
        ({"lr": "fast"}, "lr in .run. to be a number, got 'fast'"),
        ({"columns_at_label_party": 1}, "true or false"),
        ({"defences": "max-norm"}, "a list of texts"),
        ({"defences": [3]}, "a list of texts"),
        ({"bottoms": ["mlp"]}, "a table of texts"),
        ({"bottoms": {"rival": "mlp"}}, "rival"),
        ({"cut": 3}, "a text"),
        ({"parties": ["bank"]}, "two or more parties"),
        ({"parties": ["bank", "bank"]}, "different names"),
        ({"parties": ["bank", "../shop"]}, "a party's name"),
        ({"label_party": "rival"}, "label party among the parties"),
        ({"test": 1.0}, "between 0 and 1"),
        ({"checkpoint": 0}, "checkpoint"),
        ({"lookahead": -1}, "lookahead"),
        ({"ids": "names"}, "text"),
        ({"optimiser": "adamm"}, "adam"),
        ({"defences": ["maxnorm"]}, "max-norm"),
        ({"cut": "secure-sun"}, "secure-sum"),
        ({"bottom": "mlpp"}, "mlp"),
        ({"epochs": 0}, "epochs"),
        ({"lr": -1.0}, "lr"),
    ],
)
def test_a_mistake_is_named(changed, says):
    with pytest.raises(ConfigError, match=says):
        manifest(**changed)


@pytest.mark.parametrize("key", ["parties", "label_party"])
def test_what_must_be_there_is_asked_for(key):
    section = {"parties": ["bank", "shop"], "label_party": "bank"}
    del section[key]
    with pytest.raises(ConfigError, match=f"Expected {key} in .run., found none"):
        manifest_of(section)


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


def test_the_digest_names_the_whole_manifest():
    assert PLAIN.digest == manifest(epochs=30).digest
    changes = (
        {"epochs": 31},
        {"seed": 1},
        {"salt": "x"},
        {"bottoms": {"shop": "linear"}},
        {"parties": ["shop", "bank"]},
    )
    assert len({manifest(**change).digest for change in changes} | {PLAIN.digest}) == len(changes) + 1


def test_spellings_that_mean_the_same_are_the_same():
    full = manifest(defences=["hash"]).to_json()["defences"][0]
    assert manifest(defences=[full]).digest == manifest(defences=["hash"]).digest
