"""What the binary-reconstruction paper measures beside accuracy and attacks: its conditions, its decoy, its times."""

import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutlayer.attacks.tools.binary.enumeration import binary_vectors, extension
from cutlayer.attacks.tools.binary.recover import recover_binary
from cutlayer.attacks.tools.binary.span import Floats, span_of
from cutlayer.rng import numpy_generator
from cutlayer.run import Run
from cutlayer.transcript import Transcript

ROWS, BINARY = 10_000, 3
LIMIT = 32  # columns that enumeration takes
TRIED = 2_000  # candidates of the naive loop that are timed; the rest is extrapolated


def conditions(run: Run) -> dict[str, float]:
    """Smallest over largest singular value of the first layer's weights: the attack needs full rank (section IV-A)."""
    name = run.task.feature_parties[0]
    bottom, width = run.session.parties[name].modules["bottom"], _columns(run).shape[1]
    with torch.no_grad():
        weights = bottom(torch.eye(width)) - bottom(torch.zeros(1, width))
    values = torch.linalg.svdvals(weights.double())
    return {"weights": float(values[run.task.features[name].values.shape[1] - 1] / values[0])}


def fabricated(run: Run) -> dict[str, float]:
    """Whether Algorithm 1 finds the fabricated bit of Masquerade and nothing else (section VI-E)."""
    name = run.task.feature_parties[0]
    seen = Transcript()
    run.session.predict(torch.cat([run.task.train, run.task.test]), seen.write)
    rows, sent, _ = next(c for c in seen.channels.values() if c.sender == name).read()
    solutions = binary_vectors(span_of(sent.numpy()))
    bit = _columns(run)[rows, -1].numpy() > 0.5
    exact = (solutions == bit[:, None]).all(axis=0).any()
    return {"solutions": float(solutions.shape[1]), "the bit": float(exact)}


def _columns(run: Run) -> Tensor:
    """What the first feature party computes on: its columns, as its defences left them."""
    features = run.session.parties[run.task.feature_parties[0]].features
    assert isinstance(features, Tensor)
    return features.cpu()


def times(run: Run) -> dict[str, float]:
    """Figure 4: seconds to find the binary columns among more and more columns, 10,000 rows, float32 messages.

    The run is not used: time depends on the shape alone. The naive loop tries one candidate at a time
    on all rows, and is timed on a few thousand of its 2^d.
    """
    seconds = {}
    for rank in (10, 12, 16, 20, 24, 28, 32, 40, 60, 80):
        messages = synthetic(rank)
        if rank <= LIMIT:
            start = time.perf_counter()
            span = span_of(messages)
            assert binary_vectors(span).shape[1] == BINARY
            seconds[f"meet in the middle, {rank}"] = time.perf_counter() - start
            seconds[f"naive loop, {rank}"] = naive(span.basis) * 2**rank
        start = time.perf_counter()
        assert len(recover_binary(messages, seconds=120).columns) == BINARY
        seconds[f"binary-search, {rank}"] = time.perf_counter() - start
    return seconds


def synthetic(columns: int, rows: int = ROWS, seed: int = 0) -> NDArray[np.float32]:
    """Messages of three binary columns among correlated, skewed and uniform ones."""
    rng = numpy_generator(seed, "binary times", columns)
    shared = rng.normal(size=(rows, 3))
    table = rng.normal(size=(rows, columns)) + shared @ rng.normal(size=(3, columns))
    table[:, ::3] = np.exp(table[:, ::3] / 2)
    table[:, 1::3] = np.tanh(table[:, 1::3])
    table[:, :BINARY] = table[:, :BINARY] > np.quantile(table[:, :BINARY], [0.5, 0.7, 0.9], axis=0).diagonal()
    return (table @ rng.normal(size=(columns, columns + 20))).astype(np.float32)


def naive(basis: Floats) -> float:
    """Seconds per candidate of a straightforward loop."""
    matrix, rng = extension(basis), numpy_generator(0, "naive loop")
    candidates = rng.integers(0, 2, (TRIED, basis.shape[1])).astype(np.float64)
    start = time.perf_counter()
    for candidate in candidates:
        vector = matrix @ candidate
        _ = np.abs(vector - np.round(vector).clip(0, 1)).max() < 1e-2
    return (time.perf_counter() - start) / TRIED
