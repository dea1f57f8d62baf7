"""What all agree on: mistakes are named, and the digest covers all of it."""

import pytest

from cutlayer.errors import ConfigError
from cutlayer.net.party.manifest import manifest_of


def manifest(**settings):
    return manifest_of({"parties": ["bank", "shop"], "label_party": "bank", **settings})


PLAIN = manifest(epochs=30)


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
