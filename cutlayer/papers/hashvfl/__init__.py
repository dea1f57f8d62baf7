"""Qiu et al.: HashVFL."""

from cutlayer.papers import Paper

PAPER = Paper(
    name="hashvfl",
    title="Qiu et al., HashVFL: Defending Against Data Reconstruction Attacks in Vertical Federated Learning",
    mechanisms="hashed embeddings",
)
