"""Greedy hash: Sign with a straight-through gradient, and a pull of each number towards +-1."""

from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from torch import Tensor

from cutlayer._validate import at_least, non_negative, one_of
from cutlayer.blocks.codebook import check_codes, code_bits
from cutlayer.blocks.sign import sign
from cutlayer.defence import Defence, Local, Place
from cutlayer.wire import Encoding

Reading = Literal["paper", "code"]


class GreedyHash(Defence):
    """Send Sign(v), without batch norm and without target codes.

    The feature party adds `weight` * mean(| |v| - 1 |^3) to its own loss (`reading=paper`, Su et al.).
    HashVFL's published variant takes the 3-norm of v - code with the code attached to the graph, where
    the two gradients cancel exactly: `reading=code` is therefore Sign codes and nothing else. Without
    `bits`, codes are as short as telling the classes apart allows.

    Protects: features; each feature party applies it.
    Guarantee: none (heuristic, made for retrieval). A row's message has at most `bits` bits.
    Does not hide: the class, as far as the top model can read it.
    Specification: baselines, section 12; hashvfl, section 4.7.
    Paper: Su et al., Greedy Hash (NeurIPS 2018); compared by Qiu et al. (arXiv:2212.00325).
    """

    strengths: ClassVar[tuple[str, ...]] = ("bits=16", "bits=8")

    def __init__(self, *, bits: int | None = None, weight: float = 0.1, reading: Reading = "paper") -> None:
        if bits is not None:
            at_least("bits", bits, 1)
        non_negative("weight", weight)
        one_of("reading", reading, get_args(Reading))
        self.bits = bits
        self.weight = weight
        self.reading = reading

    def width(self, width: int, classes: int) -> int:
        """As many numbers as bits."""
        return code_bits("greedy-hash", self.bits, classes)

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Hash embeddings."""
        return sign(payload) if local.place is Place.EMBEDDING else payload

    @property
    def label_path(self) -> bool:
        """Its penalty is the feature party's, without labels."""
        return False

    def penalty(self, embedding: Tensor, local: Local) -> Tensor | None:
        """At the feature party, before Sign."""
        if local.labels is not None or self.reading == "code":
            return None
        return self.weight * (embedding.abs() - 1).abs().pow(3).mean()

    def inspect(self, arrived: Mapping[str, Tensor], own: Tensor | None, local: Local) -> Tensor | None:
        """Refuse what is not a code of the agreed length."""
        check_codes(arrived, self.width(0, local.classes))
        return None

    def encoding(self, place: Place) -> Encoding | None:
        """Codes cross as bits."""
        return Encoding.BITS if place is Place.EMBEDDING else None
