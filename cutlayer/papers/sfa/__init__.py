"""Cai et al.: secure forward aggregation."""

from cutlayer.papers import Paper

PAPER = Paper(
    name="sfa",
    title="Cai et al., Secure Forward Aggregation for Vertical Federated Neural Networks",
    mechanisms="secure sum",
)
