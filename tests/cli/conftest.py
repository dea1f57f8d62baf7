import numpy as np
import pytest


@pytest.fixture
def table(tmp_path):
    """120 rows, three columns and a label that they explain."""
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 120))
    lines = ["id,a,b,c,y"]
    lines += [
        f"{i},{x:.4f},{y:.4f},{z:.4f},{int(x + y + z > 0)}" for i, (x, y, z) in enumerate(zip(a, b, c, strict=True))
    ]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path
