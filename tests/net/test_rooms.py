"""The rooms of the network: each builds on those before it, and none reads a wall clock but those of certificates."""

import ast
from pathlib import Path

import cutlayer.net

ROOT = Path(cutlayer.net.__file__).parent
ROOMS = ("wire", "trust", "peers", "party", "predict")
CERTIFICATES = ("authority.py", "identity.py", "pem.py")


def imports_of(path):
    """The rooms that a file imports from."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (name.split(".")[2] for name in names if name.startswith("cutlayer.net.") and name.count(".") > 1)
        if isinstance(node, ast.ImportFrom) and node.module == "cutlayer.net":
            yield from (alias.name for alias in node.names if alias.name in ROOMS)


def test_a_room_imports_only_itself_and_rooms_before_it():
    seen = 0
    for path in sorted(ROOT.rglob("*.py")):
        room = path.parent.name
        for imported in imports_of(path):
            seen += 1
            assert ROOMS.index(imported) <= ROOMS.index(room), f"{path} imports from {imported}"
    assert seen > 100


def test_nothing_that_crosses_depends_on_a_wall_clock():
    paths = [path for path in sorted(ROOT.rglob("*.py")) if path.name not in CERTIFICATES]
    assert len(paths) > 40
    for path in paths:
        assert "time.time(" not in path.read_text() and "datetime" not in path.read_text(), path
