from cutlayer.data import ColumnKind, load
from tests.helpers.dataset_files import FILES


def test_bank_codes_categories_by_the_alphabet(put, any_size):
    put(*FILES["bank"][:2])
    held = load("bank").features["party2"]
    columns = {column.name: values for column, values in zip(held.columns, held.values.T, strict=True)}
    assert columns["job"][:4].tolist() == [0, 1, 0.5, 0]
    assert columns["contact"][:3].tolist() == [0, 1, 0]
    kinds = {c.name: c.kind for c in held.columns}
    assert kinds["contact"] is ColumnKind.BINARY and kinds["age"] is ColumnKind.NUMERIC
