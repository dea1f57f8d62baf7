"""Distance correlation as a term of a loss: that of metrics.dependence, on tensors that are trained."""

import torch
from torch import Tensor

FLAT = 1e-24  # a share of the squared distances that is rounding, as in metrics.dependence


def distance_correlation(first: Tensor, second: Tensor) -> Tensor:
    """Distance correlation (biased, not squared), differentiable; 0 without a gradient where rows are all alike."""
    first_distances, second_distances = _centred_distances(first), _centred_distances(second)
    spread = first_distances.square().sum() * second_distances.square().sum()
    ratio = (first_distances * second_distances).sum() / spread.where(spread > 0, 1).sqrt()
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
