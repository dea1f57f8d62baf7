"""Binarised split learning: bits instead of numbers, and in the original also inside the bottom."""

from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from torch import Tensor, nn
from torch.nn.utils import parametrize

from cutlayer._validate import at_least, non_negative, one_of, positive
from cutlayer.blocks.codebook import check_codes, code_bits
from cutlayer.blocks.sign import Normalised, plus_laplace, sign
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Defence, Local, Place, Setting, Subject
from cutlayer.errors import ConfigError
from cutlayer.metrics.distance import distance_correlation
from cutlayer.wire import Encoding

Variant = Literal["extended", "original"]


class BinarisedSplit(Defence):
    """Send the signs of embeddings, one bit per number (B-SL).

    `variant=extended` is what HashVFL compares with: batch norm, Sign, and a penalty
    `weight` times |v - code|^2 per row at the feature party. `variant=original` binarises inside the bottom as
    well (Sign forward, straight-through backward): the weights of its linear and convolution
    layers, and its activations, as far as they are ReLU or Tanh modules. `leak` weighs a term that
    lowers the distance correlation between inputs and embeddings, and `epsilon` sends
    Sign(Sign(v) + Lap(2/epsilon)). Without `bits`, codes are as short as telling the classes apart allows.

    Protects: features; each feature party applies it.
    Guarantee: none (heuristic); a row's message has at most `bits` bits. With epsilon, each bit of
    one message has epsilon-local differential privacy with respect to that bit.
    Does not hide: the class, as far as the top model can read it.
    Specification: baselines, section 13.
    Paper: Pham et al., Binarizing Split Learning for Data Privacy Enhancement (arXiv:2206.04864).
    """

    strengths: ClassVar[tuple[str, ...]] = ("bits=16", "bits=8")

    def __init__(
        self,
        *,
        bits: int | None = None,
        variant: Variant = "extended",
        weight: float = 1.0,
        leak: float = 0.0,
        epsilon: float | None = None,
    ) -> None:
        if bits is not None:
            at_least("bits", bits, 1)
        one_of("variant", variant, get_args(Variant))
        non_negative("weight", weight)
        non_negative("leak", leak)
        if epsilon is not None:
            positive("epsilon", epsilon)
        self.bits = bits
        self.variant = variant
        self.weight = weight
        self.leak = leak
        self.epsilon = epsilon

    def width(self, width: int, classes: int) -> int:
        """As many numbers as bits."""
        return code_bits("binarised-split", self.bits, classes)

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """Add batch norm (extended), or binarise the bottom's weights (original)."""
        if setting.subject is not Subject.BOTTOM:
            return model
        if self.variant == "extended":
            return nn.Sequential(model, Normalised(self.width(0, setting.classes)))
        for module in list(model.modules()):
            if isinstance(module, nn.Linear | nn.Conv2d):
                parametrize.register_parametrization(module, "weight", Binary())
            for name, child in module.named_children():
                if isinstance(child, nn.ReLU | nn.Tanh):
                    setattr(module, name, Signed())
        return model

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Hash embeddings, and flip bits if asked to."""
        if local.place is not Place.EMBEDDING:
            return payload
        code = sign(payload)
        return code if self.epsilon is None else sign(plus_laplace(code, 2 / self.epsilon, local.rng))

    @property
    def label_path(self) -> bool:
        """Its penalty is the feature party's, without labels."""
        return False

    def penalty(self, embedding: Tensor, local: Local) -> Tensor | None:
        """At the feature party: distance to the code (extended), distance correlation with the inputs."""
        if local.labels is not None:
            return None
        terms = []
        if self.variant == "extended":
            terms.append(self.weight * (embedding - sign(embedding).detach()).pow(2).sum(dim=1).mean())
        if self.leak and local.inputs is not None:
            if isinstance(local.inputs, SparseRows):
                raise ConfigError(
                    f"Expected dense columns to measure leak={self.leak} on, got sparse rows; use leak=0."
                )
            terms.append(self.leak * distance_correlation(local.inputs.flatten(1), embedding))
        return sum(terms[1:], start=terms[0]) if terms else None

    def inspect(self, arrived: Mapping[str, Tensor], own: Tensor | None, local: Local) -> Tensor | None:
        """Refuse what is not a code of the agreed length."""
        check_codes(arrived, self.width(0, local.classes))
        return None

    def encoding(self, place: Place) -> Encoding | None:
        """Codes cross as bits."""
        return Encoding.BITS if place is Place.EMBEDDING else None


class Signed(nn.Module):
    """An activation by its sign."""

    def forward(self, values: Tensor) -> Tensor:
        """Binarise."""
        return sign(values)


class Binary(nn.Module):
    """A weight by its sign, scaled by its mean size so that activations keep their magnitude."""

    def forward(self, weight: Tensor) -> Tensor:
        """Binarise."""
        return sign(weight) * weight.detach().abs().mean()
