import pytest

from cutlayer.finding import Status
from cutlayer.report.cells import cells_of, matrix, setup_name
from tests.helpers import synthetic_record as synthetic


def test_cells_join_seeds_and_victims():
    cells = {(c.setup, c.attack): c for c in cells_of(synthetic.record())}
    assert len(cells) == len(synthetic.HIDES) * len(synthetic.ATTACKS)
    assert cells["gaussian-noise:std=1", "pgd"].gaps == {(Status.FAILED, "the attack diverged"): 1}
    assert len(cells["gaussian-noise:std=1", "pgd"].done) == 2
    assert cells["hash:bits=4", "binary-search"].victim == "shop"  # as elsewhere, though the finding has none
    assert cells["secure-sum", "model-inversion"].gaps == {(Status.MISSING, ""): 1}
    setups, lines = matrix(list(cells.values()))
    assert setups[0] == "none" and len(lines) == len(synthetic.ATTACKS)
    assert all(set(line) == set(setups) for _, line in lines)


@pytest.mark.parametrize(
    ("defence", "strength", "name"),
    [
        ("none", "", "none"),
        ("gaussian-noise", "std=1e+05", "gaussian-noise:std=1e+05"),
        ("hash+max-norm", "bits=8+", "hash:bits=8+max-norm"),
        ("hash+label-dp", "bits=8+epsilon=2", "hash:bits=8+label-dp:epsilon=2"),
        ("hash+max-norm", "bits=8", "hash+max-norm (bits=8)"),
    ],
)
def test_a_setup_is_named_as_on_the_command_line(defence, strength, name):
    assert setup_name(defence, strength) == name
