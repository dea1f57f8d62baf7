"""InstaHide: train on random mixtures of a batch's rows, with random signs."""

import hashlib
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Defence, Local, Place, Role, Setting, Subject
from cutlayer.errors import ConfigError
from cutlayer.rng import generator, uniform_like

MOST = 0.65  # of a mixture that one row may make up


class Instahide(Defence):
    """Train on sums of `k` rows of the batch, each pixel or column with a random sign, and on the labels' sum.

    A row becomes sigma * (l_1 x_1 + ... + l_k x_k): x_1 is the row itself, the others are partners from its
    batch, the l are |N(0, 1)| made to sum to 1 and drawn again while one exceeds 0.65, and sigma is +1 or -1
    per entry, drawn anew for every row and batch by each feature party for itself. The label party learns
    l_1 y_1 + ... + l_k y_k, so all parties must know partners and l: they draw them from the run's seed and the
    batch's row numbers. Its own columns are mixed too but keep their signs, as they are not sent. `k=1` is signs
    alone. The loss that a run reports is that of the rows' own labels.

    Protects: features; every party with columns mixes rows, feature parties draw signs, the label party mixes labels.
    Guarantee: none (heuristic), and broken for pictures: Carlini et al. (arXiv:2011.05315) recover them from mixtures.
    Does not hide: anything in prediction, where rows are plain as in both published codes: embeddings are as
    readable there as without it, also those of training rows. Partners and l, which every party knows: the label
    party faces signs alone, and feature parties can compare gradients with mixtures of labels.
    Specification: baselines, section 9.
    Paper: Huang et al., InstaHide: Instance-hiding Schemes for Private Distributed Learning (arXiv:2010.02772); for
    vertical learning as compared by Gu et al., FedAdOb (arXiv:2406.01085).
    """

    strengths: ClassVar[tuple[str, ...]] = ("k=2", "k=4")

    def __init__(self, *, k: int = 4) -> None:
        if k not in range(1, 5):
            raise ConfigError(f"Expected k={k} to be 1, 2, 3 or 4, the number of rows that are mixed.")
        self.k = k

    @property
    def clients(self) -> bool:
        """Every client mixes its rows."""
        return True

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """Flip signs in front of a feature party's bottom; `batch` cannot, as it does not know the party's role."""
        is_sent = setting.subject is Subject.BOTTOM and setting.role is Role.FEATURE_PARTY
        return Flipped(model) if is_sent else model

    def batch(self, values: Tensor | SparseRows, local: Local) -> Tensor | SparseRows:
        """Mix each row of a training batch with its partners; labels are mixed where their gradient is (`protect`)."""
        if local.place is not Place.INPUTS:
            return values
        if isinstance(values, SparseRows) or not values.is_floating_point():
            raise ConfigError("Expected dense columns of numbers to mix for instahide; leave it out.")
        return mixed(values, *mixture(local.rows, self.k, local.shared_seed)) if local.training else values

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Turn the gradient at the logits into that of the mixed labels' loss; leave messages alone."""
        if local.place is not Place.LOGITS or not local.training or local.labels is None or payload.dim() != 2:
            return payload
        own, slope = local.labels, 1
        if payload.shape[1] == 1:  # squared error
            own, slope = own[:, None], 2
        elif own.dim() == 1:
            own = one_hot(own, payload.shape[1])
        own = own.to(payload.dtype)
        wanted = mixed(own, *mixture(local.rows, self.k, local.shared_seed))
        return payload + slope * (own - wanted) / len(payload)


class Flipped(nn.Module):
    """A bottom that sees every number with a random sign while it is trained."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, values: Tensor) -> Tensor:
        """Embed; signs come from the party's draws, which rng.Stream.scope lends."""
        if self.training:
            values = torch.where(uniform_like(values) < 0.5, values, -values)
        return cast(Tensor, self.inner(values))


def mixture(rows: Tensor, k: int, shared_seed: int) -> tuple[Tensor, Tensor]:
    """Which places of the batch make up each row (itself first), and how much of it: both (rows, k)."""
    count = len(rows)
    numbers = rows.detach().cpu().to(torch.int64).numpy().tobytes()
    rng = generator(shared_seed, "instahide", hashlib.sha256(numbers).hexdigest())
    others = [torch.randperm(count, generator=rng) for _ in range(k - 1)]
    weights = torch.zeros(count, k, dtype=torch.float64)
    again = torch.ones(count, dtype=torch.bool)
    while again.any():
        drawn = torch.randn(int(again.sum()), k, generator=rng, dtype=torch.float64).abs()
        weights[again] = drawn / drawn.sum(dim=1, keepdim=True)
        again = weights.amax(dim=1) > (MOST if k > 1 else 1)
    return torch.stack([torch.arange(count), *others], dim=1), weights


def mixed(values: Tensor, partners: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of each row's partners."""
    flat, shares = values.flatten(1), weights.to(values)
    total = torch.zeros_like(flat)
    for partner, share in zip(partners.to(values.device).T, shares.T, strict=True):
        total = total + share[:, None] * flat[partner]
    return total.view_as(values)
