from cutlayer.finding import Status
from cutlayer.report.cells import cells_of, matrix
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
