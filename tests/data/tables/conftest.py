import polars as pl
import pytest

from tests.helpers.customers import customers


@pytest.fixture
def save(tmp_path):
    def write(columns=None, name="customers.csv", **changes):
        path = tmp_path / name
        pl.DataFrame(customers(**changes) if columns is None else columns, strict=False).write_csv(path)
        return path

    return write


@pytest.fixture
def write(tmp_path):
    def put(content, name="customers.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put
