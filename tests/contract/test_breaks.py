"""Breaks: attacks that once worked. Each succeeds on a weak variant that is kept beside it, and fails on ours.

docs/explanation-breaks.md tells them; one file of tests/contract/breaks has one break.
"""

from pathlib import Path

import pytest

HERE = Path(__file__).parent / "breaks"
PAGE = Path(__file__).parents[2] / "docs" / "explanation-breaks.md"

for path in HERE.glob("*.py"):
    pytest.register_assert_rewrite(f"tests.contract.breaks.{path.stem}")

from tests.contract.breaks.epoch_differences import *  # noqa: E402, F403
from tests.contract.breaks.false_certificate import *  # noqa: E402, F403
from tests.contract.breaks.half_noise import *  # noqa: E402, F403
from tests.contract.breaks.layer_recursion import *  # noqa: E402, F403
from tests.contract.breaks.low_bits import *  # noqa: E402, F403
from tests.contract.breaks.other_rows_gradient import *  # noqa: E402, F403
from tests.contract.breaks.resumed_noise import *  # noqa: E402, F403
from tests.contract.breaks.secure_sum_deep import *  # noqa: E402, F403
from tests.contract.breaks.stripped_noise import *  # noqa: E402, F403


def test_every_break_runs_here_and_is_told_on_the_page():
    text, page = Path(__file__).read_text(), PAGE.read_text()
    files = {path.stem for path in HERE.glob("*.py")} - {"__init__"}
    assert [name for name in files if f"breaks.{name} import" not in text or f"`{name}.py`" not in page] == []
