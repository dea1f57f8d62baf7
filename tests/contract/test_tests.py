"""Where tests live: what several of them share is in tests/helpers."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def imported(path: Path) -> set[str]:
    """Every module that a file imports, by its full name."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def test_no_test_is_imported():
    """Or a test that is moved breaks others."""
    for folder in ("tests", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            modules = {name for name in imported(path) if name.startswith("tests.")}
            assert not [name for name in modules if ".test_" in name], path.relative_to(ROOT)
