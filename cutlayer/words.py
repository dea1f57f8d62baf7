"""Words: values from JSON, TOML or options, checked against the fields of the dataclass that they are for."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from cutlayer.errors import ConfigError
from cutlayer.json_types import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
Where = Callable[[str], str]  # from a key to where it stands, for the error: " in [run]"


def check_words(cls: type["DataclassInstance"], words: Mapping[str, object], where: Where = lambda key: "") -> None:
    """Refuse a value that does not have the type of its field."""
    hints = {f.name: f.type for f in fields(cls)}
    for key, value in words.items():
        if not _fits(value, hints[key]):
            raise ConfigError(f"Expected {key}{where(key)} to be {_kind(hints[key])}, got {value!r}.")


def read_words(cls: type[T], words: Mapping[str, object], where: Where = lambda key: "") -> T:
    """Make a dataclass from checked words; lists become tuples."""
    check_words(cls, words, where)
    return cls(**_arguments(words))


def changed(value: T, words: Mapping[str, object]) -> T:
    """A copy of a dataclass in which checked words take the place of its own."""
    check_words(type(value), words)
    return replace(value, **_arguments(words))


def _arguments(words: Mapping[str, object]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in words.items()}


def _fits(value: object, hint: Any) -> bool:
    if value is None:
        return NoneType in get_args(hint)
    hint = _required(hint)
    if isinstance(value, bool):
        return hint is bool
    if get_origin(hint) is tuple:
        return isinstance(value, list | tuple) and all(_fits(item, get_args(hint)[0]) for item in value)
    if get_origin(hint) is Mapping:
        values = get_args(hint)[1]
        anything = values == Json  # the alias itself, not a type, at run time
        return isinstance(value, Mapping) and (anything or all(_fits(item, values) for item in value.values()))
    return isinstance(value, float | int if hint is float else hint)


def _kind(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", Mapping: "a table"}
    hint = _required(hint)
    inside = f"{names[get_args(hint)[-2]].removeprefix('a ')}s" if get_origin(hint) is tuple else "texts"
    return f"a list of {inside}" if get_origin(hint) is tuple else names.get(hint, f"a table of {inside}")


def _required(hint: Any) -> Any:
    """The type of a value that is there: of `int | None` it is int."""
    return next(kind for kind in get_args(hint) if kind is not NoneType) if NoneType in get_args(hint) else hint
