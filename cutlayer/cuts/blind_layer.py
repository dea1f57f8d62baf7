"""Blind layer: the first linear layer, whose weights nobody holds, trained without telling a feature party anything."""

from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from cutlayer._validate import at_least, one_of, positive
from cutlayer.crypto import Agreement, Residues, ZeroSum
from cutlayer.cut import Cut, Gathered, Roster, Shape, collect
from cutlayer.cuts.parts.blind_ends import OWN, ColumnsEnd, GradientEnd, OwnBlock, OwnKey
from cutlayer.cuts.parts.halves import (
    COLUMN,
    RING,
    blur,
    decode_sum,
    descend,
    encode_columns,
    encode_step,
    first_weights,
)
from cutlayer.cuts.parts.masking import SIZES, scheme_named
from cutlayer.cuts.parts.memory import Memory
from cutlayer.cuts.parts.payload import bytes_in, bytes_message
from cutlayer.cuts.parts.stretch import once_only
from cutlayer.defence import Setting
from cutlayer.errors import ConfigError, ProtocolError
from cutlayer.message import Batch, Kind, Message, Phase, Talk, send
from cutlayer.wire import Encoding

Scheme = Literal["bfv", "paillier"]


class BlindLayer(Cut):
    """Multiply every party's columns by weights that nobody holds, and open the sum to the label party alone.

    A linear layer stands where the columns enter: Z = X_1 W_1 + X_2 W_2 + ..., and the top gets Z. W_i is the sum of
    two halves modulo 2^56, one at party i and one at the label party, which has the key. Forward, the party turns the
    label party's half, encrypted, into X_i W_i under masks that cancel over the feature parties, so that the label
    party opens Z alone. Backward, it turns [lr dZ], encrypted too, into X_i^T lr dZ + phi with a uniform phi: the label
    party steps its half by that, the party its own by -phi. Of the label party's own weights the first feature
    party holds a half that never changes, as in secure-sum; the rest of them the label party trains in the clear.

    All of it equals nn.Linear(columns, `width`, bias=False) trained by SGD at `lr` with `momentum`, on columns rounded
    to 2^-10 and steps of lr dZ rounded at random to 2^-22, which fits the weights' grid: nothing is cut off, so plain
    SGD cannot fail. With momentum a number wraps round with probability |lr v| / 2^24 per weight and step, v being its
    velocity; the next sums then leave their range, and training stops. It goes on from a checkpoint. Momentum also
    rounds shares, so runs repeat up to 1e-8 only.

    Nothing before the layer can be trained, as no gradient reaches it: bottoms have no weights (`--bottom none`), and
    the activation belongs in the top (`--top relu-mlp`). `lr` and `momentum` belong to this layer alone; the recipe's
    are the top's. Defences on gradients have nothing to change. A party draws its own first weights, for they tell it
    nothing: it never sees Z. The label party, which does, has no part in them: from half of them it could estimate
    columns. `scheme` is the cipher; both need the extra cutlayer[secure].

    Protects: labels, features; the label party and every feature party take part.
    Guarantee: semi-honest parties that do not collude learn from the messages Z without the label party's own trained
    part, blurred by as much as rounding columns does (the label party), or nothing: a feature party receives sizes,
    keys, ciphertexts and uniform shares (128 bits, crypto/parameters.py; docs/explanation-secure-cuts.md).
    Does not hide: what Z says, every epoch: two-valued columns (binary-search), and how Z changes. The label party
    knows dZ, so from changes over many epochs it can solve for inner products of the others' rows. Where one party
    alone has columns, Z is its own X W. A number that wraps round under momentum shows one column of one batch, modulo
    a small number. Also how many columns, rows and units there are.
    Cost: 0.14 s a step on one core, 380 times less than with Paillier, and 5 MB, for 256 rows, 32 columns and width 64
    (`cutlayer bench he`).
    Paper: Fu et al., BlindFL: Vertical Federated Machine Learning without Peeking into Your Data (SIGMOD 2022),
    which does this with Paillier.
    """

    strengths: ClassVar[tuple[str, ...]] = ()  # it needs bottoms without weights: to be named by hand
    gradients: ClassVar[bool] = False

    def __init__(
        self,
        *,
        width: int = 16,
        lr: float = 0.1,
        momentum: float = 0.0,
        scheme: Scheme = "bfv",
    ) -> None:
        at_least("width", width, 1)
        positive("lr", lr)
        if not 0 <= momentum < 1:
            raise ConfigError(f"Expected momentum={momentum} to lie between 0 and 1, without 1.")
        one_of("scheme", scheme, get_args(Scheme))
        self.width = width
        self.lr = lr
        self.momentum = momentum
        self.scheme = scheme

    @property
    def memory(self) -> nn.Module:
        """A party's halves of weights, and of velocities under momentum."""
        return self._memory

    def shape(self, shapes: list[Shape]) -> Shape:
        """The layer's width, however many columns come in."""
        if any(len(shape) != 1 for shape in shapes):
            raise ConfigError(f"Expected flat rows for blind-layer, got shapes {shapes}; use --bottom none.")
        return (self.width,)

    def entering(self, rows: Tensor) -> Tensor:
        """Columns as the layer takes them: rounded to its fixed point."""
        return torch.round(rows.double() * 2.0**COLUMN) / 2.0**COLUMN

    def begin(self, setting: Setting, bottom: nn.Module | None) -> nn.Module | None:
        """Remember whose side this is; refuse a bottom that would have to be trained."""
        if bottom is not None and any(p.requires_grad for p in bottom.parameters()):
            raise ConfigError(
                f"Expected a bottom without weights at {setting.party} for blind-layer, under which no gradient "
                "reaches it; use --bottom none."
            )
        self._setting, self._seed = setting, once_only(setting.private_seed)
        self._scheme = scheme_named(self.scheme, RING)
        self._memory = Memory()
        self._early: list[Message] = []
        self._end: ColumnsEnd | None = None  # at a feature party
        self._zero_sum: ZeroSum | None = None
        self._own_key: OwnKey | None = None  # at the first one
        self._ends: dict[str, GradientEnd] = {}  # at the label party
        self._own_block: OwnBlock | None = None
        self._columns: Residues | None = None  # of its own, in this batch
        return bottom

    def offer(
        self, name: str, roster: Roster, batch: Batch, embedding: Tensor, encoding: Encoding = Encoding.PLAIN
    ) -> Talk[Tensor | None]:
        """Feature party: multiply blind, forward and in training backward; there is no gradient to return."""
        label, shape = roster.label_party, (len(embedding), self.width)
        if self._end is None:
            self._end = yield from self._meet(name, roster, batch, embedding.shape[1])
        columns = encode_columns(embedding)
        inbox = yield from collect(batch, Kind.CIPHER, (label,), self._early)
        added = [blur(self._seed, batch, self.width)]
        if self._zero_sum is not None:
            added.append(self._zero_sum.zero_sum_mask(batch.step, shape))
        if self._own_key is not None:
            added.append((yield from self._open_own(self._own_key, label, batch)))
        product = self._end.forward(bytes_in(inbox[label]), columns, added)
        yield bytes_message(batch, name, label, Kind.CIPHER, product)
        if batch.phase is Phase.TRAIN:
            inbox = yield from collect(batch, Kind.CIPHER, (label,), self._early)
            product = self._end.backward(bytes_in(inbox[label]), columns, self.width)
            yield bytes_message(batch, name, label, Kind.CIPHER, product)
        return None

    def gather(self, roster: Roster, batch: Batch, own: Tensor | None) -> Talk[Gathered]:
        """Label party: send its halves under its key, open the sum of all products."""
        label, names, rows = roster.label_party, roster.feature_parties, len(batch.rows)
        if not self._ends:
            yield from self._greet(roster, batch, None if own is None else own.shape[1])
        for name in names:
            yield bytes_message(batch, label, name, Kind.CIPHER, self._ends[name].operand(rows))
        self._columns = None if own is None else encode_columns(own)
        parts = [] if self._columns is None else [(yield from self._share_own(self._columns, roster, batch))]
        inbox = yield from collect(batch, Kind.CIPHER, names, self._early)
        parts += [self._ends[name].open(bytes_in(inbox[name]), rows) for name in names]
        opened = decode_sum(RING.sum(parts))
        yield Message(batch, label, label, Kind.SUM, opened.float())
        if self._columns is not None:
            opened = opened + decode_sum(RING.matmul(RING.centred(self._columns), self._half(OWN)))
        leaf = opened.float().to(batch.rows.device).requires_grad_(batch.phase is Phase.TRAIN)
        return Gathered(leaf, dict.fromkeys(names, leaf))

    def settle(self, roster: Roster, batch: Batch, gradients: Mapping[str, Tensor]) -> Talk[None]:
        """Label party: the layer's own step, by shares; its own block's in the clear."""
        label, names, rows = roster.label_party, roster.feature_parties, len(batch.rows)
        step = encode_step(gradients[names[0]], self.lr, self._seed, batch.step)
        sent: dict[int, bytes] = {}  # by the number of columns that it meets
        for name in names:
            inputs = len(self._half(name))
            if inputs not in sent:
                sent[inputs] = self._ends[name].secret.encrypt(step, for_rows=inputs).to_bytes()
            yield bytes_message(batch, label, name, Kind.CIPHER, sent[inputs])
        if self._columns is not None:
            turned = np.ascontiguousarray(RING.centred(self._columns).T)
            descend(self._memory, OWN, RING.matmul(turned, step), self.momentum)
        inbox = yield from collect(batch, Kind.CIPHER, names, self._early)
        for name in names:
            self._ends[name].step(bytes_in(inbox[name]), rows)

    def scatter(
        self, roster: Roster, batch: Batch, gradients: Mapping[str, Tensor], encoding: Encoding = Encoding.PLAIN
    ) -> Talk[None]:
        """Label party: no gradient leaves it."""
        yield from ()

    def _meet(self, name: str, roster: Roster, batch: Batch, columns: int) -> Talk[ColumnsEnd]:
        """Feature party, once: say how many columns it has, take the key; agree on masks with the others."""
        label, others = roster.label_party, [other for other in roster.feature_parties if other != name]
        yield send(batch, name, label, Kind.SETUP, torch.tensor([columns]))
        if others:
            agreement = Agreement(name, str(self._setting.shared_seed), RING)
            for other in others:
                yield bytes_message(batch, name, other, Kind.SETUP, agreement.public)
        inbox = yield from collect(batch, Kind.SETUP, (label,), self._early)
        public = self._scheme.read_key(bytes_in(inbox[label]))
        if self._memory.find(name) is None:
            self._memory.put(name, first_weights(self._seed, "weights", (columns, self.width)))
        if name == roster.feature_parties[0] and label in roster.order:
            inbox = yield from collect(batch, Kind.SETUP, (label,), self._early)
            yield from self._hold_own(name, label, batch, _size(inbox[label]))
        if others:
            inbox = yield from collect(batch, Kind.SETUP, others, self._early)
            self._zero_sum = agreement.meet({other: bytes_in(inbox[other]) for other in others})
        return ColumnsEnd(public, self._memory, name, self.momentum)

    def _hold_own(self, name: str, label: str, batch: Batch, inputs: int) -> Talk[None]:
        """The first feature party, once: draw the half of the label party's weights that it is not to know."""
        half = self._memory.find(OWN)
        if half is None:
            half = first_weights(self._seed, "label party's weights", (inputs, self.width))
            self._memory.put(OWN, half)
        _same(half, inputs, label)
        self._own_key = OwnKey(self._scheme.generate(), half)
        key, operand = self._own_key.hello()
        yield bytes_message(batch, name, label, Kind.SETUP, key)
        yield bytes_message(batch, name, label, Kind.CIPHER, operand)

    def _open_own(self, key: OwnKey, label: str, batch: Batch) -> Talk[Residues]:
        """The first feature party: its shares of the label party's product, decrypted where it has none."""
        rows = batch.rows.cpu().numpy()
        if key.expects(rows):
            inbox = yield from collect(batch, Kind.CIPHER, (label,), self._early)
            key.open(bytes_in(inbox[label]), rows)
        return key.shares.of(rows).astype(np.int64)

    def _greet(self, roster: Roster, batch: Batch, own: int | None) -> Talk[None]:
        """Label party, once: hand out its key; for its columns, take the other half of their weights, encrypted."""
        label, names = roster.label_party, roster.feature_parties
        inbox = yield from collect(batch, Kind.SETUP, names, self._early)
        secret = self._scheme.generate()
        for name in names:
            inputs = _size(inbox[name])
            if self._memory.find(name) is None:
                self._memory.put(name, np.zeros((inputs, self.width), np.int64))  # it is to know nothing of W
            _same(self._half(name), inputs, name)
            self._ends[name] = GradientEnd(secret, self._memory, name, self.momentum)
            yield bytes_message(batch, label, name, Kind.SETUP, secret.public.to_bytes())
        if own is None:
            return
        first = names[0]
        if self._memory.find(OWN) is None:
            self._memory.put(OWN, np.zeros((own, self.width), np.int64))
        yield send(batch, label, first, Kind.SETUP, torch.tensor([own]))
        key = yield from collect(batch, Kind.SETUP, (first,), self._early)
        operand = yield from collect(batch, Kind.CIPHER, (first,), self._early)
        public = self._scheme.read_key(bytes_in(key[first]))
        self._own_block = OwnBlock(public, bytes_in(operand[first]), own, self.width)

    def _share_own(self, columns: Residues, roster: Roster, batch: Batch) -> Talk[Residues]:
        """Label party: its shares of its own product, with the other share sent where it is new."""
        assert self._own_block is not None
        rows = batch.rows.cpu().numpy()
        data = self._own_block.multiply(rows, columns)
        if data is not None:
            yield bytes_message(batch, roster.label_party, roster.feature_parties[0], Kind.CIPHER, data)
        return self._own_block.shares.of(rows).astype(np.int64)

    def _half(self, name: str) -> Residues:
        half = self._memory.find(name)
        assert half is not None
        return half


def _size(message: Message) -> int:
    if message.payload.dtype is not torch.int64 or message.payload.shape != (1,):
        raise ProtocolError(f"Expected a number of columns from {message.sender}, got {tuple(message.payload.shape)}.")
    size = int(message.payload[0])
    if not 0 < size <= SIZES:
        raise ProtocolError(f"Expected at most {SIZES} columns from {message.sender}, got {size}.")
    return size


def _same(half: Residues, inputs: int, name: str) -> None:
    if len(half) != inputs:
        raise ProtocolError(f"Expected {len(half)} columns from {name}, as the saved weights have, got {inputs}.")
