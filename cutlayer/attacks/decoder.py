"""Decoder: learn from a few known rows how to turn messages back into inputs."""

import copy
from itertools import pairwise
from math import prod
from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import mse_loss, one_hot

from cutlayer._validate import at_least, one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.inversion import is_image
from cutlayer.attacks.tools.reading import predicted
from cutlayer.blocks.patience import since_best
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, Inapplicable, RunError
from cutlayer.rng import Stream
from cutlayer.view import Manifest, View

Reads = Literal["message", "label", "class-mean"]

HIDDEN = (256, 512)
BATCH = 64
HELD_OUT = 10  # one pair in so many is not trained on but says when to stop


class Decoder(Attack):
    """Teach a small network to turn messages back into inputs, from `pairs` of them; or answer as one of two controls.

    Two hidden layers (256 and 512, ReLU) read standardised messages and end in pixels (sigmoid) or standardised
    columns; squared error, Adam at `lr`, batches of 64, at most `epochs` epochs. A tenth of the pairs is held out:
    training stops after `patience` epochs without a lower error there, and the best epoch counts.

    `reads=label` gives the same network the label party's own label of the row in place of the
    message, test rows included, and `reads=class-mean` answers with the mean of the known rows of
    that class. What a message gives away beyond the label is the difference to these.

    Sees: the victim's messages of the known rows and of the first `images` test rows (none: of all),
    in prediction; the controls see no message.
    Needs: `pairs` of the victim's training rows.
    Cost: 10 s on MNIST with 1,000 pairs, 100 s with 10,000, on a CPU (results/fedadob).
    Specification: baselines, section 3; hashvfl, section 7.
    Paper: He et al., Model Inversion Attacks Against Collaborative Inference (ACSAC 2019), theirs with
    transposed convolutions.
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY

    def __init__(
        self,
        *,
        pairs: int = 1000,
        reads: Reads = "message",
        images: int | None = None,
        epochs: int = 200,
        patience: int = 20,
        lr: float = 1e-3,
    ) -> None:
        at_least("pairs", pairs, 2)
        one_of("reads", reads, get_args(Reads))
        for name, count in (("images", images), ("epochs", epochs), ("patience", patience)):
            if count is not None:
                at_least(name, count, 1)
        positive("lr", lr)
        self.pairs = pairs
        self.reads = reads
        self.images = images
        self.epochs = epochs
        self.patience = patience
        self.lr = lr

    @property
    def asks(self) -> Asks:
        """Some of the victim's rows, and their messages under the trained model."""
        return Asks(features=self.pairs, frozen_train=True)

    def applies(self, manifest: Manifest) -> str | None:
        """A mean per class needs classes."""
        return "classes-only" if self.reads == "class-mean" and manifest.classes == 0 else None

    def run(self, view: View, rng: Generator) -> Guess:
        """Learn on the known rows, answer for the test rows."""
        known = view.hints.features.get(view.victim)
        if known is None or len(known.rows) < 2:
            raise ConfigError(f"Expected at least two known rows of {view.victim!r} for decoder.")
        if not known.values.is_floating_point():
            raise Inapplicable("dense-only")
        rows, inputs = self._inputs(view, view.manifest.test[: self.images])
        present, known_inputs = self._inputs(view, known.rows)
        if not torch.equal(present, known.rows.cpu()):
            raise RunError("Expected a message for every known row; predict on the training rows first.")
        if self.reads == "class-mean":
            values = class_means(known_inputs, known.values, inputs)
        else:
            with Stream(int(torch.randint(2**62, (), generator=rng)), "decoder").scope():
                values = self._learn(known_inputs, known.values)(inputs)
        return Guess(rows, values, Form.VALUES)

    def _inputs(self, view: View, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What is read about rows: messages, or labels (one-hot where they are classes)."""
        if self.reads == "message":
            present, messages = predicted(view, view.victim, rows)
            return present, messages.flatten(1).float()
        labels = view.own[view.attacker].labels
        if labels is None:
            raise ConfigError("Expected the label party to attack; it alone knows labels.")
        chosen = labels[rows]
        return rows, one_hot(chosen, view.manifest.classes).float() if view.manifest.classes else chosen[:, None]

    def _learn(self, inputs: Tensor, values: Tensor) -> "RowWriter":
        """Train on nine tenths of the pairs and keep the epoch that does best on the rest."""
        writer = RowWriter(inputs, values)
        x, y = writer.standard(inputs), writer.scaled(values)
        order = torch.randperm(len(x))
        held, used = order[: max(1, len(x) // HELD_OUT)], order[max(1, len(x) // HELD_OUT) :]
        optimizer = torch.optim.Adam(writer.net.parameters(), lr=self.lr)
        kept, errors = copy.deepcopy(writer.net.state_dict()), list[float]()
        for _ in range(self.epochs):
            for part in used[torch.randperm(len(used))].split(BATCH):
                optimizer.zero_grad()
                mse_loss(writer.net(x[part]), y[part]).backward()
                optimizer.step()
            with torch.no_grad():
                errors.append(float(mse_loss(writer.net(x[held]), y[held])))
            if (waited := since_best(errors)) == 0:
                kept = copy.deepcopy(writer.net.state_dict())
            if waited >= self.patience:
                break
        writer.net.load_state_dict(kept)
        return writer


class RowWriter:
    """A network between standardised inputs and pixels in [0, 1] or standardised columns."""

    def __init__(self, inputs: Tensor, values: Tensor) -> None:
        self.shape = tuple(values.shape[1:])
        self.middle, self.spread = _standard(inputs)
        flat = values.flatten(1)
        self.bounded = is_image(self.shape) and bool(flat.min() >= 0) and bool(flat.max() <= 1)
        self.low, self.unit = (torch.zeros(1), torch.ones(1)) if self.bounded else _standard(flat)
        sizes = (inputs.shape[1], *HIDDEN, prod(self.shape))
        layers: list[nn.Module] = []
        for size, after in pairwise(sizes):
            layers += [nn.Linear(size, after), nn.ReLU()]
        layers[-1] = nn.Sigmoid() if self.bounded else nn.Identity()
        self.net = nn.Sequential(*layers)

    def standard(self, inputs: Tensor) -> Tensor:
        """Inputs with mean 0 and spread 1 over the known rows."""
        return (inputs - self.middle) / self.spread

    def scaled(self, values: Tensor) -> Tensor:
        """The numbers that the network is to answer with."""
        return (values.flatten(1) - self.low) / self.unit

    @torch.no_grad()
    def __call__(self, inputs: Tensor) -> Tensor:
        """The victim's rows, as far as the inputs say."""
        output: Tensor = self.net(self.standard(inputs)) * self.unit + self.low
        return output.view(len(inputs), *self.shape)


def class_means(known: Tensor, values: Tensor, wanted: Tensor) -> Tensor:
    """The mean known row of each wanted row's class (one-hot); of all known rows for a class not among them."""
    flat = values.flatten(1)
    count = known.sum(dim=0)[:, None]
    means = torch.where(count > 0, known.T @ flat / count.clamp(min=1), flat.mean(dim=0))
    return (wanted @ means).view(len(wanted), *values.shape[1:])


def _standard(values: Tensor) -> tuple[Tensor, Tensor]:
    spread = values.std(dim=0, unbiased=False)
    return values.mean(dim=0), spread.where(spread > 0, 1.0)
