"""Zhu et al.: VFLRecon and VFLDefender."""

from cutlayer.papers import Paper

PAPER = Paper(
    name="vflrecon",
    title="Zhu et al., Vulnerabilities of Data Protection in Vertical Federated Learning Training and Countermeasures",
    mechanisms="VFLRecon, VFLDefender",
)
