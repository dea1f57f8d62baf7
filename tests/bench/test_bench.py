"""Benchmarks are found by the name of their file, and named without loading torch."""

import subprocess
import sys

from cutlayer.bench import NAMES


def test_every_benchmark_is_named_and_its_parts_are_not():
    assert {"train", "wire", "psi", "he"} <= set(NAMES) and "parts" not in NAMES


def test_the_help_names_them_without_torch():
    code = "import sys, cutlayer.cli.bench; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
