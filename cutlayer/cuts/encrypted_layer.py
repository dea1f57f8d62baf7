"""Encrypted layer: between a bottom and the top lies a linear layer whose weights nobody holds."""

from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from cutlayer._validate import at_least, one_of, positive
from cutlayer.crypto import Residues, Ring
from cutlayer.cut import Cut, Gathered, Roster, Shape, collect
from cutlayer.cuts.parts.layer_ends import NoiseEnd, Terms, WeightsEnd
from cutlayer.cuts.parts.masking import SIZES, scheme_named
from cutlayer.cuts.parts.memory import Memory
from cutlayer.cuts.parts.payload import bytes_in, bytes_message, residues_in
from cutlayer.cuts.parts.stretch import once_only
from cutlayer.defence import Setting
from cutlayer.errors import ConfigError, ProtocolError
from cutlayer.message import Batch, Kind, Message, Phase, Talk, send
from cutlayer.rng import derive
from cutlayer.wire import Encoding

Scheme = Literal["bfv", "paillier"]

HEADER = 5  # bytes before a key: how wide the embedding is, and whether the layer starts


class EncryptedLayer(Cut):
    """Pass each feature party's embedding alpha through a linear layer W under encryption; the top gets all alpha W.

    The label party holds W~ = W - N, the feature party N, the noise that it has added so far, and the key.
    Forward, the label party turns [alpha] into alpha W~ under a mask; the feature party decrypts, adds
    alpha N, and the label party takes the mask off: alpha W. Backward, [alpha] becomes alpha^T delta under
    a mask, to which the feature party adds fresh noise n / lr; the label party steps W~ by it and so hides
    n there, which the feature party adds to N. [N] from before that makes delta (W~ + N)^T, which the
    feature party opens: the gradient of its embedding. All of it equals a plaintext network with one
    nn.Linear(m, width, bias=False) per feature party, trained by plain SGD at `lr`, up to fixed point.

    `width` is what the layers put out. The label party's own embedding, if any, must have it too and is
    added. `lr` belongs to these layers alone and stays as it is: an optimiser such as Adam would need the
    bare gradient, which nobody has. 0.1 fits a mean loss; FATE's 0.9 is for its own scaling of the loss.

    `scheme` is the cipher; `bits=48` is a finer fixed point. Both ciphers need the extra cutlayer[secure].

    Unlike FATE's floats under noise of +-2^10, the masks are uniform in a ring of 2^bits and hide perfectly.
    The noise n cannot be, as lr scales it: n / lr is uniform over half the ring, which with 40 bits and
    batches of up to 256 is +-2^12 on a grid of 2^-26. Unlike FATE's, W starts where nobody knows it: it is a product
    P F of a random factor of each side, made under encryption, and both shares of it are uniform in the ring. In a
    deployment noise and blur are drawn anew whenever parties meet, so a step that is trained again, after a peer
    made the others resume, does not use them twice; in a simulation they follow from the seed and runs repeat.

    Protects: features; the label party and every feature party take part.
    Guarantee: where width < m, semi-honest parties that do not collude learn from a batch's messages alpha W
    (the label party) and delta W^T (a feature party), both blurred by as much as rounding does (128 bits,
    crypto/parameters.py). n hides alpha^T delta, and so W, statistically: a number g of it shows with
    probability |g| / 2^13 per batch (40 bits, batches of up to 256). Where width >= m there is none.
    Does not hide: what alpha W says, of each feature party apart and in every epoch (sum-differences), nor what
    gradients say of labels. Where width >= m the label party has every embedding up to one linear map of a batch,
    and who knows some rows learns that map.
    Cost: every batch is multiplied under encryption, forward and backward: about 150 times the work of an
    open sum at width 16, and 7 kB a row.
    Specification: baselines, section 11.
    Paper: Zhang et al., GELU-Net (IJCAI 2018); Zhang and Zhu (arXiv:2007.06849); as in FATE 1.x.
    """

    strengths: ClassVar[tuple[str, ...]] = ()  # minutes an epoch: to be named by hand

    def __init__(
        self,
        *,
        width: int = 16,
        lr: float = 0.1,
        scheme: Scheme = "bfv",
        bits: int = 40,
    ) -> None:
        at_least("width", width, 1)
        positive("lr", lr)
        one_of("scheme", scheme, get_args(Scheme))
        one_of("bits", str(bits), ("40", "48"))
        self.width = width
        self.lr = lr
        self.scheme = scheme
        self.bits = bits

    @property
    def memory(self) -> nn.Module:
        """W~ of every feature party at the label party, N at a feature party."""
        return self._memory

    def shape(self, shapes: list[Shape]) -> Shape:
        """The layers' width, whatever widths come in."""
        if any(len(shape) != 1 for shape in shapes):
            raise ConfigError(f"Expected flat embeddings for encrypted-layer, got shapes {shapes}; use a flat bottom.")
        return (self.width,)

    def begin(self, setting: Setting, bottom: nn.Module | None) -> nn.Module | None:
        """Remember whose side this is."""
        self._seed = once_only(setting.private_seed)
        self._scheme = scheme_named(self.scheme, Ring(self.bits, fraction=0))
        self._ring = self._scheme.ring
        self._memory = Memory()
        self._early: list[Message] = []
        self._end: NoiseEnd | None = None  # at a feature party
        self._ends: dict[str, WeightsEnd] = {}  # at the label party
        self._next: dict[str, Residues] = {}  # W~ after this batch
        return bottom

    def offer(
        self, name: str, roster: Roster, batch: Batch, embedding: Tensor, encoding: Encoding = Encoding.PLAIN
    ) -> Talk[Tensor | None]:
        """Feature party: have the embedding multiplied by W, then help with both gradients; return its own."""
        label, rows = roster.label_party, len(embedding)
        if self._end is None:
            self._end = yield from self._meet(name, label, batch, embedding.shape[1])
        end = self._end
        end.noise = self._noise()
        yield bytes_message(batch, name, label, Kind.CIPHER, end.forward(embedding))
        inbox = yield from collect(batch, Kind.CIPHER, (label,))
        product = end.complete(bytes_in(inbox[label]), embedding, batch.step)
        yield send(batch, name, label, Kind.SHARE, torch.from_numpy(product))
        if batch.phase is not Phase.TRAIN:
            return None
        yield bytes_message(batch, name, label, Kind.CIPHER, end.operand(embedding))
        inbox = yield from collect(batch, Kind.CIPHER, (label,))
        disturbed, noise = end.disturb(bytes_in(inbox[label]), rows, batch.step)
        yield send(batch, name, label, Kind.SHARE, torch.from_numpy(disturbed))
        # N as it was when alpha W was made: the label party's W~ is from before its step, too.
        yield bytes_message(batch, name, label, Kind.CIPHER, end.encrypted_noise(rows))
        self._memory.put("noise", noise)
        inbox = yield from collect(batch, Kind.CIPHER, (label,))
        gradient = end.gradient(bytes_in(inbox[label]), rows).to(embedding)
        yield Message(batch, name, name, Kind.GRADIENT, gradient)
        return gradient

    def gather(self, roster: Roster, batch: Batch, own: Tensor | None) -> Talk[Gathered]:
        """Label party: multiply every embedding by W~ blind, open alpha W, add up."""
        if own is not None and own.shape[1] != self.width:
            raise ConfigError(
                f"Expected an embedding of width {self.width} from the label party for encrypted-layer, got "
                f"{own.shape[1]}; use one width for both."
            )
        label, names = roster.label_party, roster.feature_parties
        inbox = yield from collect(batch, Kind.SETUP, [n for n in names if n not in self._ends], self._early)
        for name, message in inbox.items():
            self._ends[name] = self._weights_end(message)
        starting = [name for name in names if self._memory.find(f"weights {name}") is None]
        inbox = yield from collect(batch, Kind.CIPHER, starting, self._early)
        for name, message in inbox.items():
            yield bytes_message(batch, label, name, Kind.CIPHER, self._ends[name].begin(bytes_in(message)))
            self._memory.put(f"weights {name}", self._ends[name].weights)
        inbox = yield from collect(batch, Kind.CIPHER, names, self._early)
        for name in names:
            end, weights = self._ends[name], self._memory.find(f"weights {name}")
            assert weights is not None
            end.weights = weights
            product = end.forward(bytes_in(inbox[name]), len(batch.rows))
            yield bytes_message(batch, label, name, Kind.CIPHER, product)
        inbox = yield from collect(batch, Kind.SHARE, names, self._early)
        shape = (len(batch.rows), self.width)
        opened = {n: self._ends[n].open(residues_in(inbox[n], shape, self._ring)).float() for n in names}
        yield Message(batch, label, label, Kind.SUM, torch.cat([*opened.values()], dim=1))
        training = batch.phase is Phase.TRAIN
        arrived = {n: product.to(batch.rows.device).requires_grad_(training) for n, product in opened.items()}
        first, *rest = [part for n in roster.order if (part := arrived.get(n, own)) is not None]
        return Gathered(sum(rest, start=first), arrived)

    def settle(self, roster: Roster, batch: Batch, gradients: Mapping[str, Tensor]) -> Talk[None]:
        """Label party: the layers' own step, by the gradients as they are."""
        label, rows = roster.label_party, len(batch.rows)
        inbox = yield from collect(batch, Kind.CIPHER, gradients, self._early)
        for name, delta in gradients.items():
            product = self._ends[name].weights_gradient(bytes_in(inbox[name]), delta)
            yield bytes_message(batch, label, name, Kind.CIPHER, product)
        inbox = yield from collect(batch, Kind.SHARE, gradients, self._early)
        for name in gradients:
            end = self._ends[name]
            share = residues_in(inbox[name], (end.terms.inputs, self.width), self._ring)
            self._next[name] = end.stepped(share, rows)

    def scatter(
        self, roster: Roster, batch: Batch, gradients: Mapping[str, Tensor], encoding: Encoding = Encoding.PLAIN
    ) -> Talk[None]:
        """Label party: send each feature party the gradient of its embedding, by the weights before their step."""
        inbox = yield from collect(batch, Kind.CIPHER, gradients, self._early)
        for name, delta in gradients.items():
            product = self._ends[name].gradient(bytes_in(inbox[name]), delta, batch.step)
            yield bytes_message(batch, roster.label_party, name, Kind.CIPHER, product)
            self._memory.put(f"weights {name}", self._next.pop(name))

    def _meet(self, name: str, label: str, batch: Batch, inputs: int) -> Talk[NoiseEnd]:
        """Feature party, once: introduce itself, and if there is no layer yet, start one together."""
        end, starts = NoiseEnd(self._scheme, self._terms(inputs), self._seed), self._memory.find("noise") is None
        head = inputs.to_bytes(HEADER - 1, "little") + bytes([starts])
        yield bytes_message(batch, name, label, Kind.SETUP, head + end.secret.public.to_bytes())
        if starts:
            yield bytes_message(batch, name, label, Kind.CIPHER, end.factor())
            inbox = yield from collect(batch, Kind.CIPHER, (label,))
            self._memory.put("noise", end.begin(bytes_in(inbox[label])))
        return end

    def _noise(self) -> Residues:
        noise = self._memory.find("noise")
        assert noise is not None
        return noise

    def _weights_end(self, message: Message) -> WeightsEnd:
        """The label party's end for a feature party that introduced itself."""
        data, name = bytes_in(message), message.sender
        inputs, starts = int.from_bytes(data[: HEADER - 1], "little"), data[HEADER - 1 : HEADER] == b"\1"
        if not 0 < inputs <= SIZES:
            raise ProtocolError(f"Expected an embedding of at most {SIZES} numbers from {name}, got {inputs}.")
        weights, public = self._memory.find(f"weights {name}"), self._scheme.read_key(data[HEADER:])
        if starts != (weights is None):
            there = "it starts a new layer" if starts else "it goes on with a layer that is not here"
            raise ProtocolError(f"Expected {name} to go on where this party does, but {there}; start both anew.")
        if weights is not None and weights.shape != (inputs, self.width):
            raise ProtocolError(f"Expected an embedding of {len(weights)} numbers from {name}, got {inputs}.")
        return WeightsEnd(public, self._terms(inputs), derive(self._seed, "layer", name))

    def _terms(self, inputs: int) -> Terms:
        return Terms(self._ring, inputs, self.width, self.lr)
