"""Who holds which rows: dealt evenly, or each client with its own mixture of classes."""

import torch
from torch import Generator, Tensor

from cutlayer._validate import at_least, positive
from cutlayer.errors import DataError

TRIES = 100  # draws until every client has a row


def evenly(rows: Tensor, clients: int, rng: Generator) -> list[Tensor]:
    """Deal the rows out at random, as evenly as can be (IID)."""
    _check(rows, clients)
    order = rows[torch.randperm(len(rows), generator=rng)]
    return [part.sort().values for part in order.tensor_split(clients)]


def dirichlet(rows: Tensor, labels: Tensor, clients: int, alpha: float, rng: Generator) -> list[Tensor]:
    """Split every class by shares from a Dirichlet distribution: the smaller `alpha`, the less alike the clients.

    Hsu et al., Measuring the Effects of Non-Identical Data Distribution (arXiv:1909.06335). `labels` are those of the
    rows. It is drawn again until every client holds a row.
    """
    _check(rows, clients)
    positive("alpha", alpha)
    for _ in range(TRIES):
        parts: list[list[Tensor]] = [[] for _ in range(clients)]
        for label in labels.unique():
            of_class = rows[labels == label]
            of_class = of_class[torch.randperm(len(of_class), generator=rng)]
            gamma = torch._standard_gamma(torch.full((clients,), alpha, dtype=torch.float64), generator=rng)
            ends = (gamma.cumsum(0) / gamma.sum().clamp(min=1e-300) * len(of_class)).round().long()[:-1]
            for part, share in zip(parts, of_class.tensor_split(ends), strict=True):
                part.append(share)
        dealt = [torch.cat(part).sort().values for part in parts]
        if min(len(part) for part in dealt):
            return dealt
    raise DataError(f"Expected every one of {clients} clients to get rows at alpha={alpha}; take fewer, or more alpha.")


def _check(rows: Tensor, clients: int) -> None:
    at_least("clients", clients, 1)
    if len(rows) < clients:
        raise DataError(f"Expected at least one row for each of {clients} clients, got {len(rows)} rows.")
