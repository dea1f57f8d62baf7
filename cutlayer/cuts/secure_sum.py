"""Secure sum: embeddings are added under masks, and the label party opens their sum."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cutlayer._validate import one_of
from cutlayer.crypto import Agreement, Ring, ZeroSum
from cutlayer.cut import Gathered, Roster, Shape, collect
from cutlayer.cuts.parts.floating import FloatRing, OpenAgreement, OpenBlind, OpenHolder, OpenZeroSum
from cutlayer.cuts.parts.masking import Blind, Holder, places_of, refuse_large, scheme_named
from cutlayer.cuts.parts.payload import bytes_in, bytes_message, numbers_in
from cutlayer.cuts.parts.shares import Numbers, Shares
from cutlayer.cuts.parts.tap import Tap
from cutlayer.cuts.parts.unchanged import Unchanged
from cutlayer.cuts.sum import Sum
from cutlayer.defence import Role, Setting
from cutlayer.errors import ConfigError, ProtocolError
from cutlayer.message import Batch, Kind, Message, Phase, Talk, send
from cutlayer.wire import Encoding

Scheme = Literal["bfv", "paillier", "none"]

BEFORE_POINT = 16  # bits of the ring before the point, the sign among them: sums up to 32,768


class SecureSum(Sum):
    """Open the sum of all embeddings to the label party alone (SFA).

    The first feature party holds a key and a random matrix W_mask, which it sends encrypted. The label
    party multiplies its own rows by it blind, X_a [W_mask], takes a uniform mask off and sends the
    result to be decrypted; so the two hold shares of X_a W_mask, and the first party adds its share to
    its embedding. Further feature parties add masks that cancel, from keys that each pair agreed on.
    What the label party opens is X_a (W_A + W_mask) + the others' embeddings: its own block of the
    first layer merely starts elsewhere, and W_mask is never trained.

    All of this happens in fixed point in a ring of 2^bits, where uniform masks hide perfectly and sums are exact but
    for a dither: the first feature party adds noise below its own rounding, or the lowest bits of the sum would be
    those of X_a W_mask. The label party's bottom must be one linear layer, so that its rows never change: shares are
    kept per row and encryption costs one pass (docs/explanation-secure-sum.md says why that is safe). Anything that
    makes rows change is refused. With X_a known and W_mask fixed, sums of changing rows give W_mask away, and so does
    the gradient that deeper layers would need. A label party without columns needs none of this; then at least two
    feature parties must hide in each other's masks. `scheme=none` runs the same messages in floats with W_mask in the
    clear, every batch anew, for bottoms of any depth: for accuracy experiments, it hides nothing. `bits=48` is a finer
    fixed point. Bottoms must end in a linear layer (`--bottom linear`), and the activation belongs in the top (`--top
    relu-mlp`). Both schemes need the extra cutlayer[secure].

    Protects: features; the label party and every feature party take part.
    Guarantee: semi-honest parties that do not collude learn from the protocol's messages the dithered sum of every
    batch (the label party) and its gradient (feature parties), up to 128 bits (cutlayer/crypto/parameters.py). None
    with `scheme=none`.
    Does not hide: what the sums say. How the others' embeddings of a row change between epochs: W_mask stays, so
    differences of sums hold no mask, and whoever knows some rows reads the rest (sum-differences). With its own
    columns beside the sum the label party reads every two-valued column of the others (binary-search). Embeddings
    that take few values (codes, one-hot columns): the sum then gives W_mask away, and with it each of them. Gradients
    say labels, as without it. A label party that makes up rows, or changes them in a new run, reads W_mask.
    Cost: the first epoch takes 7.3 times as long as with an open sum and later ones 1.2 times (`cutlayer bench he`).
    Specification: sfa, sections 2 to 4 and 9.
    Paper: Cai et al., Secure Forward Aggregation for Vertical Federated Neural Networks (arXiv:2207.00165).
    """

    strengths: ClassVar[tuple[str, ...]] = ("",)
    partners: ClassVar[tuple[str, ...]] = ("column-noise",)

    def __init__(
        self,
        *,
        scheme: Scheme = "bfv",
        bits: int = 40,
    ) -> None:
        one_of("scheme", scheme, get_args(Scheme))
        one_of("bits", str(bits), ("40", "48"))
        self.scheme = scheme
        self.bits = bits

    def shape(self, shapes: list[Shape]) -> Shape:
        """All parties must send rows of one width."""
        if any(len(shape) != 1 for shape in shapes):
            raise ConfigError(f"Expected flat embeddings for secure-sum, got shapes {shapes}; use a flat bottom.")
        return super().shape(shapes)

    def entering(self, rows: Tensor) -> Tensor:
        """The label party's rows as the product with W_mask takes them: rounded to the fixed point left for them."""
        if self.scheme == "none":
            return rows
        unit = 2.0 ** (self.bits - BEFORE_POINT - places_of(rows.shape[1]))
        return torch.round(rows.double() * unit) / unit

    def begin(self, setting: Setting, bottom: nn.Module | None) -> nn.Module | None:
        """Remember whose side this is; open the label party's bottom before its last layer."""
        self._setting = setting
        self._ring: Any = FloatRing() if self.scheme == "none" else Ring(self.bits, fraction=self.bits - BEFORE_POINT)
        self._early: list[Message] = []
        self._shares, self._unchanged = Shares(), Unchanged()
        self._zero_sum: ZeroSum | OpenZeroSum | None = None
        self._holder: Holder | OpenHolder | None = None
        self._blind: Blind | OpenBlind | None = None
        self._tap = Tap(bottom) if setting.role is Role.LABEL_PARTY and bottom is not None else None
        if self._tap is not None and not self._tap.single and self.scheme != "none":
            raise ConfigError(
                "Expected one linear layer as the label party's bottom for secure-sum, got layers before it, whose "
                "training would give the mask away; use --bottom linear, or --cut blind-layer."
            )
        return bottom if self._tap is None else self._tap

    def offer(
        self, name: str, roster: Roster, batch: Batch, embedding: Tensor, encoding: Encoding = Encoding.PLAIN
    ) -> Talk[Tensor | None]:
        """Feature party: send the embedding under masks, return the gradient of the sum."""
        _check(roster)
        holds = name == roster.feature_parties[0] and roster.label_party in roster.order
        if self._zero_sum is None and self._holder is None:
            yield from self._meet(name, roster, batch, embedding.shape[1] if holds else 0)
        refuse_large(float(embedding.abs().max()), self._most(roster))
        total = self._ring.encode(embedding)
        if self._zero_sum is not None:
            total = self._ring.add(total, self._zero_sum.zero_sum_mask(batch.step, total.shape))
        if holds and self._holder is not None:
            total = self._holder.blurred(total, embedding)
            total = self._ring.add(total, (yield from self._open_shares(self._holder, roster, batch)))
        yield send(batch, name, roster.label_party, Kind.EMBEDDING, torch.from_numpy(total))
        if batch.phase is not Phase.TRAIN:
            return None
        inbox = yield from collect(batch, Kind.GRADIENT, (roster.label_party,), self._early)
        gradient = inbox[roster.label_party].payload
        if gradient.shape != embedding.shape:
            raise ProtocolError(f"Expected a gradient of shape {tuple(embedding.shape)}, got {tuple(gradient.shape)}.")
        return gradient

    def gather(self, roster: Roster, batch: Batch, own: Tensor | None) -> Talk[Gathered]:
        """Label party: hand out shares of X_a W_mask where rows lack them, then open the sum."""
        _check(roster)
        masks = [] if own is None else [(yield from self._share(roster, batch, own.shape[1]))]
        inbox = yield from collect(batch, Kind.EMBEDDING, roster.feature_parties, self._early)
        parts = [self._residues(inbox[name], batch) for name in roster.feature_parties]
        opened = torch.from_numpy(self._ring.decode(self._ring.sum([*parts, *masks]))).float()
        yield Message(batch, roster.label_party, roster.label_party, Kind.SUM, opened)
        leaf = opened.to(batch.rows.device).requires_grad_(batch.phase is Phase.TRAIN)
        return Gathered(leaf if own is None else own + leaf, dict.fromkeys(roster.feature_parties, leaf))

    def settle(self, roster: Roster, batch: Batch, gradients: Mapping[str, Tensor]) -> Talk[None]:
        """Label party, in the clear: carry the gradient on into the layers before the last, with W_mask's part."""
        yield from ()
        if self._tap is not None and isinstance(self._blind, OpenBlind):
            self._tap.flow_on(self._blind.backward(gradients[roster.feature_parties[0]]))

    def _meet(self, name: str, roster: Roster, batch: Batch, width: int) -> Talk[None]:
        """Feature party, once: agree on keys with the other feature parties; the holder sends [W_mask]."""
        others = [other for other in roster.feature_parties if other != name]
        if others:
            agreement = self._agreement(name)
            for other in others:
                yield bytes_message(batch, name, other, Kind.SETUP, agreement.public)
        if width:
            label = roster.label_party
            inbox = yield from collect(batch, Kind.SETUP, (label,), self._early)
            self._holder = self._hold(_size(inbox[label]), width)
            yield bytes_message(batch, name, label, Kind.SETUP, self._holder.public())
            yield bytes_message(batch, name, label, Kind.CIPHER, self._holder.operand())
        if others:
            inbox = yield from collect(batch, Kind.SETUP, others, self._early)
            self._zero_sum = agreement.meet({other: bytes_in(inbox[other]) for other in others})

    def _share(self, roster: Roster, batch: Batch, width: int) -> Talk[Numbers]:
        """Label party: its shares of X_a W_mask for these rows, fresh where it has none."""
        assert self._tap is not None and self._tap.entered is not None
        holder, label, entered = roster.feature_parties[0], roster.label_party, self._tap.entered
        if self._blind is None:
            inputs = self._tap.inputs
            yield send(batch, label, holder, Kind.SETUP, torch.tensor([inputs]))
            key = yield from collect(batch, Kind.SETUP, (holder,), self._early)
            operand = yield from collect(batch, Kind.CIPHER, (holder,), self._early)
            self._blind = self._blinded(inputs, width, bytes_in(key[holder]), bytes_in(operand[holder]))
        rows = batch.rows.cpu().numpy()
        if self._kept:
            self._unchanged.check(rows, entered)
        places = self._lacking(rows)
        if len(places):
            chosen = entered.index_select(0, torch.from_numpy(places).to(batch.rows.device))
            data, mask = self._blind.forward(chosen, self._most(roster))
            yield bytes_message(batch, label, holder, Kind.CIPHER, data)
            if not self._kept:
                return mask
            self._shares.add(rows[places], mask)
        return self._shares.of(rows)

    def _open_shares(self, held: Holder | OpenHolder, roster: Roster, batch: Batch) -> Talk[Numbers]:
        """The holder: its shares of X_a W_mask for these rows, decrypted where it has none."""
        rows = batch.rows.cpu().numpy()
        places = self._lacking(rows)
        if len(places):
            inbox = yield from collect(batch, Kind.CIPHER, (roster.label_party,), self._early)
            opened = held.open(bytes_in(inbox[roster.label_party]), len(places))
            if not self._kept:
                return opened
            self._shares.add(rows[places], opened)
        return self._shares.of(rows)

    @property
    def _kept(self) -> bool:
        """Whether shares are kept: a row must not change then. In the clear it may, and products are made anew."""
        return self.scheme != "none"

    def _lacking(self, rows: NDArray[np.int64]) -> NDArray[np.intp]:
        """Places of the rows that need shares."""
        return self._shares.missing(rows) if self._kept else np.arange(len(rows))

    def _agreement(self, name: str) -> Agreement | OpenAgreement:
        seed = self._setting.shared_seed
        return OpenAgreement(name, seed) if self.scheme == "none" else Agreement(name, str(seed), self._ring)

    def _hold(self, inputs: int, width: int) -> Holder | OpenHolder:
        seed = self._setting.private_seed
        if self.scheme == "none":
            return OpenHolder(inputs, width, seed)
        return Holder(scheme_named(self.scheme, self._ring), inputs, width, seed)

    def _blinded(self, inputs: int, width: int, key: bytes, operand: bytes) -> Blind | OpenBlind:
        if self.scheme == "none":
            return OpenBlind(inputs, width, operand, self._setting.private_seed)
        return Blind(scheme_named(self.scheme, self._ring), inputs, width, key, operand)

    def _most(self, roster: Roster) -> float:
        """How large one party's part may be, so that the sum of all cannot wrap round."""
        return 2.0 ** (BEFORE_POINT - 1) / (len(roster.feature_parties) + 1)

    def _residues(self, message: Message, batch: Batch) -> Numbers:
        return numbers_in(message, (len(batch.rows), *message.payload.shape[1:]), self._ring)


def _check(roster: Roster) -> None:
    if len(roster.order) < 2:
        raise ConfigError(
            "Expected two parties with columns for secure-sum, or the sum is one party's embedding; "
            "give the label party columns or add a feature party."
        )


def _size(message: Message) -> int:
    if message.payload.dtype is not torch.int64 or message.payload.shape != (1,):
        raise ProtocolError(f"Expected one size from {message.sender}, got shape {tuple(message.payload.shape)}.")
    return int(message.payload)
