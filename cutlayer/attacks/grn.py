"""GRN: train a network that writes the victim's rows, by what its bottom would send for them."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from math import prod
from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import mse_loss

from cutlayer._validate import at_least, non_negative, one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.binary.visible import entered, opened_to
from cutlayer.attacks.tools.reading import latest, predicted, white_box
from cutlayer.blocks.sparse import SparseRows
from cutlayer.crypto import Ring
from cutlayer.cuts.secure_sum import BEFORE_POINT, SecureSum
from cutlayer.defence import Role
from cutlayer.errors import Inapplicable, RunError
from cutlayer.rng import Stream
from cutlayer.view import View

Reads = Literal["embedding", "message", "sum"]
HIDDEN = (600, 200, 100)


class Grn(Attack):
    """Train a network from the attacker's columns and the victim's messages to the victim's rows (GRN).

    Three hidden layers (600, 200, 100, each with layer norm and ReLU) end in values between 0 and 1 (`bounded=false`:
    any). Nobody tells the network a true row: the victim's bottom is put behind it, and the error is that of the
    message, mean((f(G(x_a, z)) - z)^2), on the very test rows that are asked for. Adam, `epochs` epochs of batches of
    `batch`. `noise` gives the network fresh random numbers in place of messages, and `variance` adds that weight
    times the variance of its outputs over the batch, against sums of squared errors; the original has noise=true,
    variance=0.25.

    `reads`: what stands for z. "embedding": what the victim sent, under a cut without masks. Under
    secure-sum, "message" is what it sent under its mask, read as signed numbers (SFA's attack-1), and
    "sum" what the label party opened, the embedding plus x_a W_mask (attack-2). With `learn_mask` a matrix in
    the place of W_mask is learned beside the network, which undoes the mask (best with lr=0.001).

    Sees: the victim's messages, or the opened sums, of the first `images` test rows (none: of all), as predicted.
    Needs: the victim's trained bottom (white box) and the shape of one of its rows; dense inputs.
    Cost: half a minute for the 10,000 test rows of Fashion-MNIST on a GPU (results/sfa).
    Specification: baselines, section 6; sfa, sections 5 and 8. `learn_mask` is ours.
    Paper: Luo et al., Feature Inference Attack on Model Predictions in Vertical Federated Learning
    (arXiv:2010.10152), as in Cai et al. (arXiv:2207.00165), which puts z in the place of noise.
    """

    settings: ClassVar[tuple[str, ...]] = ("images=2000", "images=2000,reads=sum,learn_mask=true")

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY

    def __init__(
        self,
        *,
        reads: Reads = "embedding",
        learn_mask: bool = False,
        noise: bool = False,
        bounded: bool = True,
        variance: float = 0.0,
        images: int | None = None,
        epochs: int = 60,
        batch: int = 64,
        lr: float = 1e-4,
    ) -> None:
        one_of("reads", reads, get_args(Reads))
        non_negative("variance", variance)
        for name, count in (("images", images), ("epochs", epochs), ("batch", batch)):
            at_least(name, 1 if count is None else count, 1)
        positive("lr", lr)
        self.reads = reads
        self.learn_mask = learn_mask
        self.noise = noise
        self.bounded = bounded
        self.variance = variance
        self.images = images
        self.epochs = epochs
        self.batch = batch
        self.lr = lr

    @property
    def asks(self) -> Asks:
        """White box."""
        return Asks(bottom=True)

    def run(self, view: View, rng: Generator) -> Guess:
        """Train, and answer with what the last epoch says."""
        for rows, answer in self.epochs_of(view, rng):
            last = rows, answer
        return Guess(last[0], last[1](), Form.VALUES)

    def epochs_of(self, view: View, rng: Generator) -> Iterator[tuple[Tensor, Callable[[], Tensor]]]:
        """The rows and, after each epoch, what gives the network's answer so far: attacks can grow worse with time."""
        bottom, shape = white_box(view)
        rows, target = self._read(view)
        device = next((p.device for p in bottom.parameters()), torch.device("cpu"))
        target = target.to(device)
        own = self._own(view, rows, device)
        mixed = entered(view, rows) if self.learn_mask else None
        if self.learn_mask and (mixed is None or self.reads != "sum"):
            raise Inapplicable("a mask is learned with reads=sum and columns of the attacker's own")
        seed = int(torch.randint(2**62, (), generator=rng))
        stream = Stream(seed, "grn", device=device)
        with Stream(seed, "grn", "start").scope():  # layers are drawn on the CPU, whatever they run on
            width = own.shape[1] + (prod(shape) if self.noise else target.shape[1])
            net = network(width, prod(shape), self.bounded).to(device)
        mixed = None if mixed is None else mixed.float().to(device)
        mask = (
            None if mixed is None else torch.zeros(mixed.shape[1], target.shape[1], device=device, requires_grad=True)
        )
        parameters = [*net.parameters(), *([] if mask is None else [mask])]
        optimizer = torch.optim.Adam(parameters, lr=self.lr, fused=True)

        def written(places: Tensor) -> Tensor:
            read = torch.randn(len(places), prod(shape), device=device) if self.noise else target[places]
            output: Tensor = net(torch.cat([own[places], read], dim=1))
            return output

        @torch.no_grad()
        def answer() -> Tensor:
            with stream.scope():
                parts = [written(places) for places in torch.arange(len(rows), device=device).split(4096)]
            return torch.cat(parts).view(len(rows), *shape).cpu()

        for _ in range(self.epochs):
            with stream.scope():
                for places in torch.randperm(len(rows), device=device).split(self.batch):
                    guess = written(places)
                    sent = bottom(guess.view(len(places), *shape)).flatten(1)
                    if mask is not None and mixed is not None:
                        sent = sent + mixed[places] @ mask
                    loss = mse_loss(sent, target[places])
                    if self.variance:
                        loss = loss + self.variance * guess.var(dim=0, unbiased=False).sum() / sent.numel()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            yield rows, answer

    def _read(self, view: View) -> tuple[Tensor, Tensor]:
        """The test rows, and what was seen of each."""
        cut, wanted = view.manifest.cut, view.manifest.test[: self.images]
        if self.reads == "sum":
            opened = opened_to(view)
            if opened is None:
                raise Inapplicable("no sum was opened; use reads=embedding")
            if len(view.manifest.roster.feature_parties) > 1:
                raise Inapplicable("one feature party")
            rows, values = latest(*opened.read()[:2], wanted)
            if not len(rows):
                raise RunError("Expected opened sums of the test rows, found none; predict on them first.")
            return rows, values.flatten(1).float()
        if isinstance(cut, SecureSum) != (self.reads == "message"):
            raise Inapplicable("embeddings are masked" if isinstance(cut, SecureSum) else "messages carry no mask")
        rows, values = predicted(view, view.victim, wanted, masked=True)
        if isinstance(cut, SecureSum) and not values.is_floating_point():  # scheme=none masks floats
            ring = Ring(cut.bits, fraction=cut.bits - BEFORE_POINT)
            values = torch.from_numpy(ring.decode(values.numpy()))
        return rows, values.flatten(1).float()

    @staticmethod
    def _own(view: View, rows: Tensor, device: torch.device) -> Tensor:
        """The attacker's columns; none if it holds none."""
        features = view.own[view.attacker].features
        if isinstance(features, SparseRows):
            raise Inapplicable("dense-only")
        own = torch.empty(len(rows), 0) if features is None else features.index_select(0, rows.to(features.device))
        return own.flatten(1).float().to(device)


def network(inputs: int, outputs: int, bounded: bool) -> nn.Sequential:
    """Linear layers with layer norm and ReLU between them, and a sigmoid at the end where values are bounded."""
    layers: list[nn.Module] = []
    for size, after in pairwise((inputs, *HIDDEN)):
        layers += [nn.Linear(size, after), nn.LayerNorm(after), nn.ReLU()]
    layers.append(nn.Linear(HIDDEN[-1], outputs))
    return nn.Sequential(*layers, nn.Sigmoid()) if bounded else nn.Sequential(*layers)
