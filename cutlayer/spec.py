"""Names and settings as text: `max-norm`, `gaussian-noise:std=0.1,on=gradient`, to objects and back.

Nothing is registered: a class is found because its file lies in the package.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping
from enum import Enum
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from cutlayer._validate import one_of, suggestion
from cutlayer.errors import ConfigError

T = TypeVar("T")
DASH = re.compile(r"(?<![eE])-")  # between the numbers of a list, not in an exponent
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def kebab(name: str) -> str:
    """Spell a class name as the command line does: MaxNorm -> max-norm, LabelDP -> label-dp."""
    out = ""
    for i, letter in enumerate(name):
        starts = letter.isupper() and i > 0
        after_small = starts and not name[i - 1].isupper()
        before_small = starts and i + 1 < len(name) and name[i + 1].islower()
        out += ("-" if after_small or before_small else "") + letter.lower()
    return out


def name_of(cls: type) -> str:
    """Name a class as the command line does: dotted, if it is not one of ours."""
    return kebab(cls.__name__) if cls.__module__.startswith("cutlayer.") else f"{cls.__module__}.{cls.__qualname__}"


def describe(thing: object, *, full: bool = False) -> str:
    """Spell an object: its class's name (dotted, if it is not one of ours) and its settings.

    Settings at their default are left out, unless `full`: a record should not depend on defaults.
    """
    cls = type(thing)
    name = name_of(cls)
    usual = {n: p.default for n, p in inspect.signature(cls).parameters.items()}
    chosen = {k: v for k, v in vars(thing).items() if not k.startswith("_") and (full or usual.get(k) != v)}
    settings = ",".join(f"{k}={plain(v)}" for k, v in chosen.items())
    return spell(name, settings)


def spell(name: str, settings: str) -> str:
    """Join a name and its settings: `hash:bits=8`; a name alone, if there are none."""
    return f"{name}:{settings}" if settings else name


def split_spelling(spelling: str) -> tuple[str, str]:
    """Split what `describe` spelled into the name and its settings."""
    name, _, settings = spelling.partition(":")
    return name, settings


def name_in(spelling: str) -> str:
    """The name in what `describe` spelled, without the settings."""
    return split_spelling(spelling)[0]


def find(package: ModuleType, base: type[T]) -> dict[str, type[T]]:
    """Every subclass of `base` that is defined in a module (or a file of a package), by its spelling."""
    return {
        kebab(name): thing
        for name, thing in defined(package)
        if inspect.isclass(thing) and issubclass(thing, base) and thing is not base
    }


def defined(package: ModuleType) -> list[tuple[str, object]]:
    """Every class and function that a module or the files of a package define, by name; not what they import."""
    return [
        (name, thing)
        for module in modules(package)
        for name, thing in sorted(vars(module).items())
        if getattr(thing, "__module__", None) == module.__name__
    ]


def modules(package: ModuleType) -> list[ModuleType]:
    """Import a module and, if it is a package, its files (not those of rooms inside it)."""
    files = pkgutil.iter_modules(getattr(package, "__path__", []))
    return [package, *(importlib.import_module(f"{package.__name__}.{file.name}") for file in files)]


def parse(text: str, package: ModuleType, base: type[T], what: str) -> T:
    """Make an object from its spelling. A dotted name, `my_module.MyDefence`, is imported from the path."""
    name, rest = split_spelling(text)
    cls = class_named(name, package, base, what)
    return cls(**settings(rest, cls, f"{what} {name}"))


def class_named(name: str, package: ModuleType, base: type[T], what: str) -> type[T]:
    """Return the class of this name: one of a package's, or by its dotted name one from the path."""
    if "." in name:
        return _imported(name, base, what)
    known = find(package, base)
    one_of(what, name, sorted(known))
    return known[name]


def settings(text: str, function: Callable[..., object], what: str) -> dict[str, object]:
    """Read `key=value,key=value` by the annotations of a callable's arguments."""
    hints = get_type_hints(function.__init__ if inspect.isclass(function) else function)
    allowed = [n for n in inspect.signature(function).parameters if n in hints and n != "return"]
    values: dict[str, object] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if not equals:
            raise ConfigError(f"Expected {what} settings as key=value, got {part!r}.")
        if key not in allowed:
            options = f"one of {', '.join(allowed)}" if allowed else "none"
            hint = suggestion(key, allowed)
            raise ConfigError(f"Unknown setting {key!r} of {what}: expected {options}.{hint}")
        values[key] = _read(value.strip(), hints[key], f"{key} of {what}")
    return values


def numbers_in(settings: str) -> list[float]:
    """The numbers among the values of `key=value,key=value`, also of those in lists."""
    values = [part.partition("=")[2] for part in settings.split(",")]
    return [float(item) for value in values for item in DASH.split(value) if NUMBER.fullmatch(item)]


def imported(name: str, what: str) -> object:
    """Import what a dotted name names: `my_module.MyDefence`, `my_module.my_bottom`."""
    module, _, attribute = name.rpartition(".")
    try:
        thing: object = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"Could not import {what} {name!r}: {error}.") from error
    return thing


def _imported(name: str, base: type[T], what: str) -> type[T]:
    cls = imported(name, what)
    if not (inspect.isclass(cls) and issubclass(cls, base)):
        raise ConfigError(f"Expected {what} {name!r} to be a subclass of {base.__name__}.")
    return cls


def _read(text: str, hint: Any, what: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if NoneType in args and text.lower() == "none":
            return None
        return _first_that_reads(text, [a for a in args if a is not NoneType], what)
    if origin is Literal:
        one_of(what, text, [str(a) for a in args])
        return next(a for a in args if str(a) == text)
    if origin is tuple:
        return () if text == "none" else tuple(_read(part, args[0], what) for part in DASH.split(text))
    if inspect.isclass(hint) and issubclass(hint, Enum):
        one_of(what, text, [str(member.value) for member in hint])
        return hint(text)
    if hint is bool:
        one_of(what, text.lower(), ("true", "false"))
        return text.lower() == "true"
    try:
        return hint(text)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"Expected {what} to be {_article(hint)}, got {text!r}.") from error


def _first_that_reads(text: str, hints: list[Any], what: str) -> Any:
    for hint in hints[:-1]:
        try:
            return _read(text, hint, what)
        except ConfigError:
            continue
    return _read(text, hints[-1], what)


def _article(hint: Any) -> str:
    words: Mapping[Any, str] = {int: "a whole number", float: "a number", str: "a word"}
    return words.get(hint, str(hint))


def plain(value: object) -> str:
    """A setting's value as the command line writes it."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "-".join(map(plain, value)) or "none"
    return str(value)
