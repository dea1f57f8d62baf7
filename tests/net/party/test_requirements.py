"""Rules of one party: those that hold pass, others are named, and nonsense is refused."""

import pytest

from cutlayer.errors import ConfigError
from cutlayer.net.party.manifest import manifest_of
from cutlayer.net.party.requirements import require


def manifest(**settings):
    return manifest_of({"parties": ["bank", "shop"], "label_party": "bank", **settings})


PLAIN = manifest(epochs=30)
DEFENDED = manifest(defences=["max-norm", "hash:bits=8"], cut="concat")
SECURE = manifest(cut="secure-sum:bits=48")


@pytest.mark.parametrize(
    ("rule", "fulfilled"),
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
def test_a_rule_that_holds_passes(rule, fulfilled):
    require([rule], fulfilled)


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
