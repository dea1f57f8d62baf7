"""The papers behind the attacks and defences; each one's tables and figures join as a file here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A paper and what it contributes."""

    name: str
    title: str
    mechanisms: str


PAPERS = (
    Paper(
        "hashvfl",
        "Qiu et al., HashVFL: Defending Against Data Reconstruction Attacks in Vertical Federated Learning",
        "hashed embeddings",
    ),
    Paper(
        "binary",
        "Ye et al., Feature Reconstruction Attacks and Countermeasures of DNN training in Vertical Federated Learning",
        "binary reconstruction, Gaussian masking, Masquerade",
    ),
    Paper(
        "sfa",
        "Cai et al., Secure Forward Aggregation for Vertical Federated Neural Networks",
        "secure sum",
    ),
    Paper(
        "vflrecon",
        "Zhu et al., Vulnerabilities of Data Protection in Vertical Federated Learning Training and Countermeasures",
        "VFLRecon, VFLDefender",
    ),
    Paper(
        "fedadob",
        "Gu et al., FedAdOb: Privacy-Preserving Federated Deep Learning with Adaptive Obfuscation",
        "passports and ten rivals",
    ),
)
