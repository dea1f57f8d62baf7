"""Which two-valued columns recover_binary finds, on made-up and on real tables; writes results/binary/search.csv.

    CUTLAYER_DATA=... python -m benchmarks.binary_search [case ...]

Without names all cases run, about ten minutes on two cores; with names these replace their rows. Made-up
tables: 10,000 rows, ten two-valued columns of 5 to 95 % that share three factors with all others, a
one-hot group of four, four integer columns, the rest normal, log-normal and uniform, messages of rank + 20.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import cutlayer.data
from benchmarks.results import read_table, write_table
from cutlayer.attacks.tools.binary.recover import recover_binary

Array = NDArray[Any]
OUT = "binary/search.csv"
ROWS = 10_000
SECONDS = 900  # never reached on free cores: a search ends by itself, and cpu_seconds says what it took
REAL = ("bank", "credit", "nursery", "covertype", "mushroom", "porto_seguro")


def synthetic(width: int, seed: int, *, binary: int = 10, group: int = 4) -> Array:
    """A made-up table, its columns shuffled."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((ROWS, 3))

    def latent() -> Array:
        column = factors @ rng.normal(size=3) / 2 + rng.standard_normal(ROWS)
        return np.asarray(column / column.std())

    columns = [
        np.where(y > np.quantile(y, 1 - p), 1.0, 0.0) for p in np.linspace(0.05, 0.95, binary) for y in [latent()]
    ]
    if group:
        level = np.argmax(factors @ rng.normal(size=(3, group)) / 2 + rng.gumbel(size=(ROWS, group)), axis=1)
        columns += list(np.eye(group)[level].T)
    columns += [np.minimum(rng.poisson(2 * np.exp(0.3 * factors @ rng.normal(size=3))), 12.0) for _ in range(4)]
    shapes: tuple[Callable[[Array], Array], ...] = (
        lambda y: y,
        lambda y: np.exp(0.7 * y),
        lambda y: y.argsort().argsort() / ROWS,
    )
    while len(columns) < width:
        columns.append(shapes[len(columns) % 3](latent()))
    return np.stack(columns, axis=1)[:, rng.permutation(width)]


def real(name: str, which: str, rows: int | None = None) -> tuple[Array, Array]:
    """The feature party's columns of a dataset, or everyone's; and the labels."""
    task = getattr(cutlayer.data, name)()
    parts = [f.values for party, f in task.features.items() if which == "all" or party == "party2"]
    table = torch.cat(parts, dim=1).double().numpy()[:rows]
    return table, task.labels.numpy()[:rows]


def random_layer(table: Array, seed: int = 0, extra: int = 20) -> Array:
    """Messages under random weights."""
    width = table.shape[1]
    weights = np.random.default_rng(seed).standard_normal((width, width + extra)) / width**0.5
    return np.asarray(table @ weights, dtype=np.float32)


def trained_layer(table: Array, labels: Array, seed: int = 0) -> Array:
    """Messages under a first layer, without bias, that was trained by SGD with the rest of a small network."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        first = nn.Linear(table.shape[1], table.shape[1] + 20, bias=False)
        rest = nn.Sequential(
            nn.ReLU(), nn.Linear(table.shape[1] + 20, 30), nn.ReLU(), nn.Linear(30, int(labels.max()) + 1)
        )
        x, y = torch.from_numpy(table).float(), torch.from_numpy(labels).long()
        optimizer = torch.optim.SGD([*first.parameters(), *rest.parameters()], lr=0.1, momentum=0.9, weight_decay=1e-4)
        for _ in range(max(2, 200_000 // len(x))):
            for rows in torch.randperm(len(x)).split(256):
                optimizer.zero_grad()
                nn.functional.cross_entropy(rest(first(x[rows])), y[rows]).backward()
                optimizer.step()
        with torch.no_grad():
            return np.asarray(first(x).numpy())


def noisy(messages: Array, deviation: float, seed: int) -> Array:
    """Messages of unit variance with noise."""
    noise = np.random.default_rng(seed + 1_000).standard_normal(messages.shape)
    return np.asarray(messages / messages.std(axis=0) + deviation * noise, dtype=np.float32)


def cases() -> dict[str, Callable[[], tuple[Array, Array]]]:
    """Name, and how to make table and messages."""
    out: dict[str, Callable[[], tuple[Array, Array]]] = {}

    def add(name: str, table: Callable[[], Array], message: Callable[[Array], Array] = random_layer) -> None:
        out[name] = lambda: (columns := table(), message(columns))

    for width, seeds in ((80, 3), (120, 2), (200, 4)):
        for seed in range(seeds):
            add(f"synthetic-{width}-seed{seed}", lambda w=width, s=seed: synthetic(w, s))  # type: ignore[misc]
    for width in (80, 120, 200):
        add(f"none-{width}", lambda w=width: synthetic(w, 0, binary=0, group=0))  # type: ignore[misc]
    for width, wide, deviation in ((20, 100, 0.2), (20, 100, 0.5), (80, 200, 0.3), (120, 300, 0.1), (200, 300, 0.1)):
        for seed in range(2):
            mixed = lambda w=width, s=seed: synthetic(w, s, binary=4 if w == 20 else 10, group=0 if w == 20 else 4)  # noqa: E731
            add(
                f"noise-{width}-{wide}-{deviation}-seed{seed}", mixed,
                lambda t, k=wide, n=deviation, s=seed: noisy(random_layer(t, s, k - t.shape[1]), n, s),  # type: ignore[misc]
            )  # fmt: skip
    for name in REAL:
        for which in ("party2", "all"):
            rows = 20_000 if (name, which) == ("covertype", "all") else None
            for layer in ("random", "trained"):
                out[f"{name}-{which}-{layer}"] = lambda n=name, w=which, r=rows, how=layer: _real(n, w, r, how)  # type: ignore[misc]
    out["covertype-all-random-581012"] = lambda: _real("covertype", "all", None, "random")
    add("tanh-80", lambda: synthetic(80, 0), lambda t: np.tanh(random_layer((t - t.mean(axis=0)) / t.std(axis=0))))
    add("tanh-80-narrow", lambda: synthetic(80, 0), lambda t: np.tanh(random_layer(t, extra=-30)))
    return out


def _real(name: str, which: str, rows: int | None, layer: str) -> tuple[Array, Array]:
    table, labels = real(name, which, rows)
    return table, random_layer(table) if layer == "random" else trained_layer(table, labels)


def two_valued(table: Array) -> Array:
    """The bits of the two-valued columns, a row each."""
    bits = [column > column.min() for column in table.T if len(np.unique(column)) == 2]
    return np.array(bits, dtype=np.bool_).reshape(len(bits), len(table))


def measured(name: str, make: Callable[[], tuple[Array, Array]]) -> dict[str, Any]:
    """Run one case."""
    table, messages = make()
    truth = two_valued(table)
    wall, cpu = time.perf_counter(), time.process_time()
    recovered = recover_binary(messages, seconds=SECONDS)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    signs = 2 * recovered.columns.astype(np.float32) - 1
    same = np.abs((2 * truth.astype(np.float32) - 1) @ signs.T) / len(table)
    guess = np.abs(2 * truth.mean(axis=1) - 1)
    best = np.maximum(same.max(axis=1, initial=0), guess)
    return {
        "case": name,
        "rows": len(table),
        "columns": table.shape[1],
        "rank": recovered.rank,
        "true": len(truth),
        "exact": int((same.max(axis=1, initial=0) == 1).sum()),
        "accuracy": round(float((1 + best).mean() / 2), 4) if len(truth) else "",
        "returned": len(recovered.columns),
        "false": _strangers(table, recovered.columns, 0.15 if recovered.method == "noisy" else 1e-4),
        "certified": recovered.certified,
        "method": recovered.method,
        "seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "note": recovered.note,
    }


def _strangers(table: Array, columns: Array, most: float) -> int:
    """How many returned columns do not lie in the span of the table and the constant."""
    wide = np.column_stack([table, np.ones(len(table))])
    target = columns.T.astype(np.float64)
    rest = target - wide @ np.linalg.lstsq(wide, target, rcond=None)[0]
    return int(((rest**2).mean(axis=0) > most * target.var(axis=0)).sum())


def main(names: list[str]) -> None:
    """Measure, print, and write the table after every case."""
    known = cases()
    for name in names or known:
        result = measured(name, known[name])
        rows: dict[str, dict[str, Any]] = {row["case"]: row for row in read_table(OUT)}  # of other runs, too
        rows[name] = result
        print({key: value for key, value in result.items() if key != "note"}, flush=True)
        write_table(OUT, "binary_search", [rows[case] for case in known if case in rows])


if __name__ == "__main__":
    main(sys.argv[1:])
