"""Distance correlation: teach bottoms to send embeddings that depend little on the inputs."""

from typing import ClassVar

from torch import Tensor

from cutlayer._validate import positive
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Defence, Local
from cutlayer.errors import ConfigError
from cutlayer.metrics.distance import distance_correlation


class DistanceCorrelation(Defence):
    """NoPeek: each feature party adds `weight` times the distance correlation of its inputs and embeddings.

    The correlation is over the batch, not squared, with Euclidean distances and no correction of its bias, as in the
    published code: on few rows independent tables score far above 0. It does not depend on the scale of
    embeddings. The published code for CIFAR-10 weighs it 10,000 times as much as the task's loss; here more
    than a few times may cost most of the accuracy. A batch of one row is left alone, and so is the label party's own
    bottom, whose embeddings are not sent.

    Protects: features; each feature party applies it.
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

    @property
    def label_path(self) -> bool:
        """Its penalty is the feature party's, without labels."""
        return False

    def penalty(self, embedding: Tensor, local: Local) -> Tensor | None:
        """At a feature party: how much its embeddings depend on its inputs."""
        if local.labels is not None or len(embedding) < 2:
            return None
        if local.inputs is None or isinstance(local.inputs, SparseRows) or not local.inputs.is_floating_point():
            raise ConfigError("Expected dense columns of numbers for distance-correlation; leave it out.")
        return self.weight * distance_correlation(local.inputs.flatten(1), embedding.flatten(1))
