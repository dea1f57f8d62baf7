"""Ye et al.: feature reconstruction of binary columns."""

from cutlayer.papers import Paper

PAPER = Paper(
    name="binary",
    title="Ye et al., Feature Reconstruction Attacks and Countermeasures of DNN training in Vertical Federated "
    "Learning",
    mechanisms="binary reconstruction, Gaussian masking, Masquerade",
)
