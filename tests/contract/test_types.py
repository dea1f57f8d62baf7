"""What others call and read has a real type: `Any` switches the type checker off for everyone who uses it."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "cutlayer"
Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def test_no_public_signature_or_field_holds_any():
    modules = {_module_of(path): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    unknown = _unknown_names(modules)
    holes = [f"{name}: {hole}" for name, tree in modules.items() for hole in _holes(tree, unknown[name])]
    assert holes == []


def test_the_walk_finds_every_way_to_write_any():
    source = """
from typing import Any, TypeAlias
import typing
Loose = dict[str, Any]
Again: TypeAlias = "list[Loose]"
LIMIT: dict[str, Any] = {}
def plain(a: Any) -> None: ...
def quoted() -> "list[Any]": ...
def dotted(*rest: typing.Any) -> None: ...
def aliased(*, key: Again) -> None: ...
def _private(a: Any) -> None: ...
def fine(a: object) -> int:
    local: Any = a
    return local
class Thing:
    field: Any
    _hidden: Any
    def __init__(self, **options: Any) -> None: ...
    def method(self) -> Loose: ...
class _Hidden:
    def method(self) -> Any: ...
"""
    importer = "from cutlayer.thing import Again as Taken\ndef late(a: Taken) -> None: ..."
    modules = {"cutlayer.thing": ast.parse(source), "cutlayer.importer": ast.parse(importer)}
    unknown = _unknown_names(modules)
    expected = ["plain", "quoted", "dotted", "aliased", "Thing.field", "Thing.__init__", "Thing.method"]
    assert list(_holes(modules["cutlayer.thing"], unknown["cutlayer.thing"])) == expected
    assert list(_holes(modules["cutlayer.importer"], unknown["cutlayer.importer"])) == ["late"]


def _module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _unknown_names(modules: dict[str, ast.Module]) -> dict[str, set[str]]:
    """For each module the names that stand for Any, or for a type that holds it: aliases too, its own and imported."""
    unknown = {name: {"Any"} for name in modules}
    before = -1
    while before != (before := sum(map(len, unknown.values()))):
        for name, tree in modules.items():
            for node in tree.body:
                if isinstance(node, ast.ImportFrom) and node.module in modules:
                    theirs = unknown[node.module]
                    unknown[name] |= {alias.asname or alias.name for alias in node.names if alias.name in theirs}
                elif (alias := _alias(node)) and _holds(alias[1], unknown[name]):
                    unknown[name].add(alias[0])
    return unknown


def _alias(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """The name and the type of a module-level alias."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return (
            (node.targets[0].id, node.value) if isinstance(node.value, ast.Subscript | ast.BinOp | ast.Name) else None
        )
    declared = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).endswith("TypeAlias")
    return (node.target.id, node.value) if declared and node.value and isinstance(node.target, ast.Name) else None


def _holes(tree: ast.AST, unknown: set[str], owner: str = "") -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.AnnAssign) and owner and isinstance(node.target, ast.Name):
            if _public(node.target.id) and _holds(node.annotation, unknown):
                yield f"{owner}{node.target.id}"
        elif isinstance(node, Node) and _public(node.name):
            if isinstance(node, ast.ClassDef):
                yield from _holes(node, unknown, f"{owner}{node.name}.")
            elif any(_holds(annotation, unknown) for annotation in _annotations(node)):
                yield f"{owner}{node.name}"


def _public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def _annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    annotations = [argument.annotation for argument in arguments if argument is not None]
    return [annotation for annotation in (*annotations, function.returns) if annotation is not None]


def _holds(annotation: ast.expr, unknown: set[str]) -> bool:
    """Whether a type names one of these names, inside quotes too."""
    for part in ast.walk(annotation):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            try:
                quoted = ast.parse(part.value, mode="eval").body
            except SyntaxError:  # prose in an Annotated type
                continue
            if not isinstance(quoted, ast.Constant) and _holds(quoted, unknown):
                return True
        name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
        if name in unknown:
            return True
    return False
