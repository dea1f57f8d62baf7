"""Distance correlation: teach bottoms to send embeddings that depend little on the inputs."""

from typing import ClassVar

import torch
from torch import Tensor

from cutlayer._validate import positive
from cutlayer.defence import Defence, Local
from cutlayer.errors import ConfigError
from cutlayer.sparse import SparseRows

FLAT = 1e-24  # a share of the squared distances that is rounding, as in metrics.dependence


class DistanceCorrelation(Defence):
    """NoPeek: each feature party adds `weight` times the distance correlation of its inputs and embeddings.

    The correlation is over the batch, not squared, with Euclidean distances and no correction of its bias, as in the
    published code: on few rows independent tables score far above 0. It does not depend on the scale of
    embeddings. The published code for CIFAR-10 weighs it 10,000 times as much as the task's loss; here more
    than a few times may cost most of the accuracy. A batch of one row is left alone, and so is the label party's own
    bottom, whose embeddings are not sent.

    Guarantee: none (heuristic).
    Does not hide: what the task needs, or whatever a learned decoder reads from embeddings that depend little on
    inputs by this measure; labels.
    Specification: baselines, section 13, whose option this is.
    Paper: Vepakomma et al., NoPeek: Information leakage reduction to share activations in distributed deep learning
    (arXiv:2008.09161).
    """

    strengths: ClassVar[tuple[str, ...]] = ("weight=0.3", "weight=1.0", "weight=3.0")

    def __init__(self, *, weight: float = 1.0) -> None:
        positive("weight", weight)
        self.weight = weight

    def penalty(self, embedding: Tensor, local: Local) -> Tensor | None:
        """At a feature party: how much its embeddings depend on its inputs."""
        if local.labels is not None or len(embedding) < 2:
            return None
        if local.inputs is None or isinstance(local.inputs, SparseRows) or not local.inputs.is_floating_point():
            raise ConfigError("Expected dense columns of numbers for distance-correlation; leave it out.")
        return self.weight * distance_correlation(local.inputs.flatten(1), embedding.flatten(1))


def distance_correlation(one: Tensor, two: Tensor) -> Tensor:
    """Distance correlation (biased, not squared), differentiable; 0 without a gradient where rows are all alike."""
    here, there = _centred_distances(one), _centred_distances(two)
    spread = here.square().sum() * there.square().sum()
    ratio = (here * there).sum() / spread.where(spread > 0, 1).sqrt()
    usable = ratio > 0
    return ratio.where(usable, 1).sqrt().where(usable, 0)


def _centred_distances(table: Tensor) -> Tensor:
    """Distances less the means of row and column; zeros where nothing but rounding is left.

    In float64 and not by matrix products, which would leave rounding in the place of small distances. Rows that
    coincide get the gradient 0 from cdist.
    """
    table = table.double()
    distances = torch.cdist(table, table, compute_mode="donot_use_mm_for_euclid_dist")
    mean = distances.mean(dim=0)
    centred = distances - mean[:, None] - mean[None, :] + mean.mean()
    return centred if centred.square().sum() > FLAT * distances.square().sum() else centred * 0
