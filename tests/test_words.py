from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from cutlayer.errors import ConfigError
from cutlayer.json_types import Json
from cutlayer.words import changed, check_words, read_words


@dataclass(frozen=True)
class Words:
    name: str = ""
    rate: float = 0.0
    most: int | None = None
    seeds: tuple[int, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    table: Mapping[str, Json] = field(default_factory=dict)


def test_words_become_the_dataclass_and_lists_become_tuples():
    assert read_words(Words, {"rate": 1, "most": None, "seeds": [1, 2]}) == Words(rate=1, seeds=(1, 2))
    assert read_words(Words, {"table": {"test": 0.2, "parties": {"a": ["x"]}}}).table["test"] == 0.2


def test_other_words_take_the_place_of_ones_own():
    assert changed(Words("a", 0.5), {"rate": 2.0}) == Words("a", 2.0)


@pytest.mark.parametrize(
    "words, wanted",
    [
        ({"name": 1}, "name in f to be a text, got 1"),
        ({"rate": True}, "rate in f to be a number, got True"),
        ({"most": 1.5}, "most in f to be a whole number, got 1.5"),
        ({"seeds": ["x"]}, "seeds in f to be a list of whole numbers"),
        ({"models": {"a": 1}}, "models in f to be a table of texts"),
        ({"name": None}, "name in f to be a text, got None"),
    ],
)
def test_a_value_of_another_type_is_named(words, wanted):
    with pytest.raises(ConfigError, match=wanted):
        check_words(Words, words, lambda key: " in f")
