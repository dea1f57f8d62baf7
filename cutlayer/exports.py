"""The names that a package exports, imported when they are first used.

PyTorch takes a second to import and twenty attacks take another tenth, so a name waits until somebody asks for it.
Type checkers cannot follow that: they read the `__init__.pyi` beside each `__init__.py`, which is generated from
the same names (`make generated`), and a test fails when it is out of date.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType


def lazy(
    package: str, homes: Mapping[str, str], found: Callable[[ModuleType], Mapping[str, object]] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package.

    `homes` says in which module below the package a name lives; "" stands for rooms of the package itself.
    `found` returns the plug-ins that lie in the package, by name.
    """
    places = {name: home for home, names in homes.items() for name in names.split(", ")}

    def plug_ins() -> Mapping[str, object]:
        return found(sys.modules[package]) if found else {}

    def list_names() -> list[str]:
        return sorted({*places, *plug_ins()})

    def get(name: str) -> object:
        module = sys.modules[package]
        if name == "__all__":
            return list_names()
        if name in places:
            home = places[name]
            value = getattr(import_module(f"{package}.{home}"), name) if home else import_module(f"{package}.{name}")
            setattr(module, name, value)
        elif not name.startswith("_") and name not in _files(module):
            vars(module).update(plug_ins())
        if name not in vars(module):
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module)
        return vars(module)[name]

    return get, list_names


def files_in(room: str) -> list[str]:
    """The names of a room's files, as the command line spells them. Nothing is imported, so `--help` may ask."""
    return sorted(path.stem.replace("_", "-") for path in (Path(__file__).parent / room).glob("[a-z]*.py"))


def folders_in(room: str) -> list[str]:
    """The same for the packages in a room."""
    inner = (Path(__file__).parent / room).glob("*/__init__.py")
    return sorted(path.parent.name.replace("_", "-") for path in inner)


def _files(package: ModuleType) -> set[str]:
    """The names of the package's own modules, which `from package import module` asks for before it imports them."""
    folders = [Path(folder) for folder in package.__path__]
    return {path.stem for folder in folders for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
