"""Optional packages, imported when first used, with one sentence when they are missing."""

from functools import cache
from importlib import import_module
from types import ModuleType

from cutlayer.errors import ConfigError


@cache
def load(module: str, extra: str = "secure") -> ModuleType:
    """Import a module of an extra, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.split(".")[0]
        raise ConfigError(
            f"This needs the module {name!r}, which is not installed: pip install 'cutlayer[{extra}]'."
        ) from error
