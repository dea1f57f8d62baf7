"""Who may import whom: `ls cutlayer` is the architecture, and this keeps it so."""

import ast
from pathlib import Path

import cutlayer
from tests.contract.layers import LAYER

ROOT = Path(cutlayer.__file__).parent


def imports():
    """(file, imported module of ours) for every import anywhere in the package."""
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT)
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cutlayer"):
                names = [node.module] if "." in node.module else [f"cutlayer.{a.name}" for a in node.names]
            elif isinstance(node, ast.Import):
                names = [a.name for a in node.names if a.name.startswith("cutlayer.")]
            yield from ((relative, name) for name in names)


def unit(relative: Path) -> str:
    return relative.parts[0].removesuffix(".py")


def test_every_module_has_a_layer():
    units = {unit(path.relative_to(ROOT)) for path in ROOT.rglob("*.py")}
    assert units == set(LAYER), units ^ set(LAYER)


def test_nobody_imports_from_a_layer_above():
    for path, name in imports():
        imported = name.split(".")[1]
        assert LAYER[imported] <= LAYER[unit(path)], f"{path} imports {name}"


def test_plug_ins_know_neither_each_other_nor_the_parties():
    """An attack may name the defence that it is against, to ask the manifest for it."""
    for path, name in imports():
        if unit(path) in ("attacks", "defences") and path.name != "__init__.py":
            room, _, shared = name.removeprefix("cutlayer.").partition(".")
            assert room not in ("party", "parties", "session", "data", "judge"), path
            assert room != "defences" or unit(path) == "attacks", path
            assert room != "attacks" or (unit(path) == "attacks" and shared.startswith("tools")), path


def test_only_the_judge_and_the_audit_name_the_secret():
    for path in sorted(ROOT.rglob("*.py")):
        if path.name not in ("judge.py", "secret.py", "__init__.py"):
            names = {n.id for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Name)}
            assert "Secret" not in names, path


def test_nothing_is_unpickled_or_evaluated():
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        assert "import pickle" not in text and "torch.load(" not in text and "allow_pickle=True" not in text, path


def test_no_two_classes_have_the_same_name():
    homes: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
