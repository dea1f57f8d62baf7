"""Hash: send a few bits per row, the same for all rows of a class as far as learning gets there."""

from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from cutlayer._validate import at_least, one_of, positive
from cutlayer.blocks.codebook import check_codes, code_bits, least_bits, target_codes
from cutlayer.blocks.sign import Normalised, plus_laplace, sign
from cutlayer.defence import Defence, Local, Place, Setting, Subject
from cutlayer.errors import ConfigError
from cutlayer.wire import Encoding

Targets = Literal["run", "private"]
Reading = Literal["paper", "code"]
TrainOn = Literal["codes", "embeddings"]
Gradients = Literal["float32", "float16"]


class Hash(Defence):
    """Send the signs of normalised embeddings, which target codes pull together class by class (HashVFL).

    Each bottom ends in batch norm (`normalise`) and what it sends is Sign, with Sign(0) = +1 and
    the gradient passed straight through. The label party adds 1 - cos(code, target code) to its
    loss (`consistency`), the mean over feature parties. Target codes are drawn from the run's
    seed (`targets=run`), from another seed that all know (a number), or, our variant, by the label
    party alone and per feature party (`targets=private`): the others do not need them.

    `epsilon` flips bits: the paper's reading is Sign(Sign(v) + Lap(2/epsilon)), `reading=code` is
    the published code's, without the outer Sign and with the inner product in place of the
    cosine. `train_on=embeddings` trains the top on what precedes Sign and sends codes in
    prediction only, as the published ablation does: nothing is protected while training.
    `sign=false` leaves batch norm alone, to tell its effect from that of hashing. The label
    party's own columns are not sent, so they are not hashed. Without `bits`, codes are as short as telling
    the classes apart allows. `gradients=float16` sends gradients in half precision.

    Protects: features; each feature party sends codes, the label party pulls them towards target codes.
    Guarantee: none (heuristic). A row's message has at most `bits` bits. With epsilon, each bit
    of one message has epsilon-local differential privacy with respect to that bit; a row sends
    `bits` of them in every epoch.
    Does not hide: the class. Codes are made to say it, and with shared target codes every feature
    party reads labels off its own codes without knowing one (attack nearest-code).
    Specification: hashvfl, sections 2 and 4.6.
    Paper: Qiu et al., HashVFL: Defending Against Data Reconstruction Attacks in Vertical Federated
    Learning (arXiv:2212.00325).
    """

    strengths: ClassVar[tuple[str, ...]] = ("bits=16", "bits=8", "bits=4")
    partners: ClassVar[tuple[str, ...]] = ("max-norm",)

    def __init__(
        self,
        *,
        bits: int | None = None,
        targets: int | Targets = "run",
        normalise: bool = True,
        consistency: bool = True,
        epsilon: float | None = None,
        reading: Reading = "paper",
        train_on: TrainOn = "codes",
        sign: bool = True,
        gradients: Gradients = "float32",
    ) -> None:
        if bits is not None:
            at_least("bits", bits, 1)
        if epsilon is not None:
            positive("epsilon", epsilon)
        if isinstance(targets, str):
            one_of("targets", targets, get_args(Targets))
        one_of("reading", reading, get_args(Reading))
        one_of("train_on", train_on, get_args(TrainOn))
        one_of("gradients", gradients, get_args(Gradients))
        if epsilon is not None and not sign:
            raise ConfigError(
                f"Expected sign=true to flip bits with epsilon={epsilon}, got sign=false; drop one of them."
            )
        self.bits = bits
        self.targets = targets
        self.normalise = normalise
        self.consistency = consistency
        self.epsilon = epsilon
        self.reading = reading
        self.train_on = train_on
        self.sign = sign
        self.gradients = gradients

    def shared_codes(self, classes: int, seed: int) -> Tensor | None:
        """The target codes that every party knows, given the run's seed; None where only the label party does."""
        if not classes or not self.consistency or self.targets == "private":
            return None
        shared_seed = seed if self.targets == "run" else int(self.targets)
        return target_codes(classes, self.width(0, classes), shared_seed).clone()  # the cache's own stays as it is

    def width(self, width: int, classes: int) -> int:
        """As many numbers as bits, by default the fewest that tell the classes apart."""
        bits = code_bits("hash", self.bits, classes)
        if (self.sign or self.consistency) and bits < least_bits(classes):
            raise ConfigError(
                f"Expected at least {least_bits(classes)} bits to tell {classes} classes apart, got bits={bits}."
            )
        return bits

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """End each bottom in batch norm."""
        if setting.subject is not Subject.BOTTOM or not self.normalise:
            return model
        return nn.Sequential(model, Normalised(self.width(0, setting.classes)))

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Hash embeddings; round gradients to half precision if asked to."""
        if local.place is Place.GRADIENT and self.gradients == "float16":
            return payload.half().to(payload.dtype)
        if local.place is not Place.EMBEDDING or not self.sign or (local.training and self.train_on == "embeddings"):
            return payload
        code = sign(payload)
        if self.epsilon is None:
            return code
        noisy = plus_laplace(code, 2 / self.epsilon, local.rng)
        return noisy if self.reading == "code" else sign(noisy)

    def penalty(self, embedding: Tensor, local: Local) -> Tensor | None:
        """At the label party: 1 - cos with the target code of each row's label."""
        if local.labels is None or not self.consistency:
            return None
        bits = embedding.shape[1]
        private = self.targets == "private"
        seed = local.private_seed if private else local.shared_seed if self.targets == "run" else int(self.targets)
        codes = target_codes(local.classes, bits, seed, *([local.peer] if private else []))
        codes = codes.to(embedding.device)
        wanted = local.labels @ codes if local.labels.is_floating_point() else codes[local.labels]
        if self.reading == "code":
            return 1 - (embedding * wanted).sum(dim=1).mean() / bits
        return (1 - cosine_similarity(embedding, wanted, dim=1)).mean()

    def inspect(self, arrived: Mapping[str, Tensor], own: Tensor | None, local: Local) -> Tensor | None:
        """Refuse what is not a code of the agreed length."""
        check_codes(arrived, self.width(0, local.classes), self.encoding(Place.EMBEDDING) is Encoding.BITS)
        return None

    def encoding(self, place: Place) -> Encoding | None:
        """Codes cross as bits, gradients as they are or as halves."""
        if place is Place.GRADIENT and self.gradients == "float16":
            return Encoding.HALF
        noisy = self.epsilon is not None and self.reading == "code"
        is_code = self.sign and not noisy and self.train_on == "codes"
        return Encoding.BITS if place is Place.EMBEDDING and is_code else None
