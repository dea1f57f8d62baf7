"""Gu et al.: FedAdOb, vertical."""

from cutlayer.papers import Paper

PAPER = Paper(
    name="fedadob",
    title="Gu et al., FedAdOb: Privacy-Preserving Federated Deep Learning with Adaptive Obfuscation",
    mechanisms="passports and ten rivals",
)
