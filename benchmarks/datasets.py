"""Load every dataset from its real files and write what was found to results/datasets.csv.

    CUTLAYER_DATA=... python -m benchmarks.datasets

Also checks the sets of the binary reconstruction paper: which columns of the feature party are
two-valued, and that its columns are linearly independent.
"""

import time

import torch

from benchmarks.results import write_table
from cutlayer.blocks.sparse import SparseRows
from cutlayer.data import describe, load

TWO_VALUED = {
    "bank": ["contact"],
    "credit": ["SEX"],
    "mushroom": ["bruises", "gill-attachment", "gill-spacing", "gill-size", "stalk-shape"],
    "nursery": ["finance"],
    "covertype": [f"wilderness_area_{number}" for number in range(1, 5)],
}


def main() -> None:
    """Load, count, check, write."""
    rows = []
    for about in describe():
        start = time.perf_counter()
        task = load(about.name)
        seconds = time.perf_counter() - start
        shapes = {name: "x".join(map(str, f.values.shape[1:])) for name, f in task.features.items()}
        rows.append(
            {
                "dataset": about.name,
                "rows": len(task.labels),
                "train": len(task.train),
                "test": len(task.test),
                "classes": len(task.classes) or "regression",
                "inputs": " ".join(f"{name}={shape}" for name, shape in shapes.items()),
                "seconds": round(seconds, 1),
            }
        )
        print(rows[-1], flush=True)
        if about.name in TWO_VALUED:
            features = task.features["party2"]
            assert not isinstance(features.values, SparseRows)
            values = features.values.double()
            names = [c.name for c, v in zip(features.columns, values.T, strict=True) if len(v.unique()) == 2]
            assert names == TWO_VALUED[about.name], names
            assert int(torch.linalg.matrix_rank(values.T @ values)) == values.shape[1]
    write_table("datasets.csv", "datasets", rows)


if __name__ == "__main__":
    main()
