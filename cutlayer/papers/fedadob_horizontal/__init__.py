"""Gu et al.: FedAdOb, horizontal."""

from cutlayer.papers import Paper

PAPER = Paper(
    name="fedadob-horizontal",
    title="Gu et al., FedAdOb: Privacy-Preserving Federated Deep Learning with Adaptive Obfuscation",
    mechanisms="passports in horizontal learning",
)
