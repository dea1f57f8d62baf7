"""What is generated from the code is up to date, and type checkers see what it says."""

import ast
from difflib import unified_diff
from importlib.util import find_spec
from pathlib import Path

from tests.contract.generate import PACKAGES, ROOT, generated, layer_table, write_stub


def changes(old: str, new: str) -> list[str]:
    """The lines to add (+) and to remove (-)."""
    lines = unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def test_every_generated_file_is_up_to_date():
    stale = {
        str(path.relative_to(ROOT.parent)): changes(path.read_text() if path.exists() else "", text)
        for path, text in generated()
    }
    assert not any(stale.values()), "Run `make generated`, or change these lines:\n" + "\n".join(
        f"{path}: {line}" for path, lines in stale.items() for line in lines
    )


def test_a_new_plug_in_is_a_line_to_add():
    stub = write_stub("cutlayer.attacks")
    decoder = "from cutlayer.attacks.decoder import Decoder as Decoder"
    assert changes(stub.replace(f"{decoder}\n", ""), stub) == [f"+{decoder}"]
    assert changes(stub, stub) == []


def test_a_type_checker_finds_each_name_where_the_stub_says():
    """It reads sources and runs nothing, so each module must itself define what the stub imports from it."""
    for package in PACKAGES:
        for line in ast.parse(write_stub(package)).body:
            assert isinstance(line, ast.ImportFrom) and line.module
            name = line.names[0].name
            room = line.module == package and find_spec(f"{package}.{name}")
            assert room or name in top_level(line.module), f"{package}: {line.module} does not define {name}"


def top_level(module: str) -> set[str]:
    """The classes, functions and constants that a module's source defines."""
    origin = find_spec(module).origin
    statements = ast.parse(Path(origin).read_text()).body
    constants = {ast.unparse(name) for line in statements if isinstance(line, ast.Assign) for name in line.targets}
    return constants | {line.name for line in statements if isinstance(line, ast.ClassDef | ast.FunctionDef)}


def test_the_layer_table_names_rooms_with_a_slash():
    assert "`attacks/`" in layer_table() and "`errors`" in layer_table() and "`errors/`" not in layer_table()
