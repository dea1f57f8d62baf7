"""Model completion: put a small head on a trained bottom and teach it a few known labels."""

import copy
from collections.abc import Callable
from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from cutlayer._validate import at_least, one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.reading import predicted
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, Inapplicable, RunError
from cutlayer.rng import Stream, numpy_generator
from cutlayer.view import Known, View

On = Literal["bottom", "messages"]

CHUNK = 4096
BATCH = 16
TEMPERATURE = 0.8
BETA = 0.75
MOST_WEIGHT = 50.0
EMA = 0.999
SHRINK = 0.02


class ModelCompletion(Attack):
    """Put a small head on the attacker's own trained bottom and teach it a few known labels (PMC).

    The bottom was trained by the true labels, so its outputs already sort by class, and a head
    (batch norm, ReLU, linear with weights that start at 1) needs few labels to name them.

    By default the bottom is frozen and only the known labels teach the head: `epochs` steps
    (300) of Adam at 5e-3, the cheaper variant of FedAdOb's co-authors. The head's batch norm
    takes its statistics from all training rows, which the attacker holds. With `ssl` the
    unlabelled rows teach it too, by MixMatch on mixed inputs as published (bottom frozen, its
    batch norm on batch statistics, EMA of the head): `epochs` (10) of `steps` batches of Adam at
    2e-3; the paper takes epochs=25, steps=1024. `lr` replaces either rate. The last epoch counts, not the best.

    With `on=messages` the head sits on what was sent for the training rows after training, codes
    under hashing, in place of the bottom's outputs before any defence (`ssl` then mixes messages).

    Sees: no message at all; with on=messages, its own, in a prediction pass over the training rows.
    Needs: its own trained bottom and columns, and `labels` labelled training rows.
    Cost: 7 s on MNIST on a CPU, 17 s with `ssl` (results/fedadob).
    Specification: baselines, section 1.
    Paper: Fu et al., Label Inference Attacks Against Vertical Federated Learning (USENIX
    Security 2022).
    """

    target: ClassVar[Target] = Target.LABELS
    by: ClassVar[Role] = Role.FEATURE_PARTY

    def __init__(
        self,
        *,
        labels: int = 40,
        ssl: bool = False,
        epochs: int | None = None,
        steps: int = 256,
        lr: float | None = None,
        on: On = "bottom",
    ) -> None:
        at_least("labels", labels, 1)
        at_least("steps", steps, 1)
        if epochs is not None:
            at_least("epochs", epochs, 1)
        if lr is not None:
            positive("lr", lr)
        one_of("on", on, get_args(On))
        self.labels = labels
        self.ssl = ssl
        self.epochs = epochs
        self.steps = steps
        self.lr = lr
        self.on = on

    @property
    def asks(self) -> Asks:
        """A few labels; for messages, those of the trained model."""
        return Asks(labels=self.labels, frozen_train=self.on == "messages")

    def run(self, view: View, rng: Generator) -> Guess:
        """Teach a head and apply it to every training row."""
        own, known = view.own[view.attacker], view.hints.labels
        if own.bottom is None or own.features is None or known is None or not len(known.rows):
            raise ConfigError("Expected an attacker with columns, a bottom and known labels for model-completion.")
        rows = view.manifest.train.cpu()
        if self.on == "messages":
            rows, sent = predicted(view, view.attacker, rows)
            places = Known(_places(rows, known.rows), known.values)
            classes = self._name(nn.Identity(), sent, torch.arange(len(rows)), places, view, rng)
        else:
            bottom = copy.deepcopy(own.bottom).eval().requires_grad_(False)
            classes = self._name(bottom, own.features, rows, known, view, rng)
        return Guess(rows, classes, Form.CLASSES)

    def _name(
        self, bottom: nn.Module, features: Tensor | SparseRows, rows: Tensor, known: Known, view: View, rng: Generator
    ) -> Tensor:
        """Classes of rows of `features`, from what the bottom makes of them and the known ones among them."""
        device = next((p.device for p in bottom.parameters()), torch.device("cpu"))
        seed = int(torch.randint(2**62, (), generator=rng))
        with Stream(seed, "model-completion", device=device).scope():
            embeddings = _embed(bottom, features, rows, device)
            head: nn.Module = _head(embeddings, view.manifest.classes)
            if self.ssl:
                targets = one_hot(known.values, view.manifest.classes).float().to(device)
                head = self._mix_match(bottom, head, _Mixer(features, rows, known, targets, seed))
            else:
                self._fit(head, _embed(bottom, features, known.rows, device), known.values.to(device))
        with torch.no_grad():
            classes: Tensor = head.eval()(embeddings).argmax(dim=1)
        return classes.cpu()

    def _fit(self, head: nn.Module, embeddings: Tensor, labels: Tensor) -> None:
        """Teach the known labels, all at once. Batch norm keeps the statistics of all rows."""
        head.eval()
        optimizer = torch.optim.Adam(head.parameters(), lr=self.lr or 5e-3)
        for _ in range(self.epochs or 300):
            optimizer.zero_grad()
            cross_entropy(head(embeddings), labels).backward()
            optimizer.step()

    def _mix_match(self, bottom: nn.Module, head: nn.Module, mixer: "_Mixer") -> nn.Module:
        """Teach known and guessed labels on mixed inputs; return the averaged head."""
        lr, total = self.lr or 2e-3, (self.epochs or 10) * self.steps
        worker = nn.Sequential(copy.deepcopy(bottom), nn.Flatten(), head).train()
        average = copy.deepcopy(head)
        optimizer = torch.optim.Adam(head.parameters(), lr=lr)
        for step in range(total):
            inputs, wanted, known = mixer.draw(worker)
            logits = interleaved(worker, inputs)
            loss = cross_entropy(logits[:known], wanted[:known])
            consistency = (logits[known:].softmax(dim=1) - wanted[known:]).pow(2).mean()
            optimizer.zero_grad()
            (loss + MOST_WEIGHT * step / total * consistency).backward()
            optimizer.step()
            _average(average, head, 1 - SHRINK * lr)
        return average


class _Mixer:
    """Draws MixMatch's batches: known rows and rows with guessed labels, mixed with each other."""

    def __init__(self, features: Tensor | SparseRows, rows: Tensor, known: Known, targets: Tensor, seed: int) -> None:
        if isinstance(features, SparseRows) or not features.is_floating_point():
            raise Inapplicable("dense-only")
        self.features = features
        self.rows = rows
        self.known = known.rows
        self.targets = targets
        self.beta = numpy_generator(seed, "beta")

    def draw(self, model: nn.Module) -> tuple[Tensor, Tensor, int]:
        """Inputs, soft targets, and how many of them (the first) were mixed into a known row."""
        device = self.targets.device
        labelled = torch.randperm(len(self.known), device="cpu")[:BATCH]
        drawn = self.rows[torch.randint(len(self.rows), (BATCH,), device="cpu")]
        unlabelled = self.features[drawn].to(device)
        with torch.no_grad():
            guessed = sharpen(model(unlabelled).softmax(dim=1))
        inputs = torch.cat([self.features[self.known[labelled]].to(device), unlabelled])
        wanted = torch.cat([self.targets[labelled], guessed])
        order = torch.randperm(len(inputs), device="cpu")
        share = self.beta.beta(BETA, BETA)
        keep = max(share, 1 - share)
        return torch.lerp(inputs[order], inputs, keep), torch.lerp(wanted[order], wanted, keep), len(labelled)


def sharpen(chances: Tensor) -> Tensor:
    """Raise to 1/T and normalise."""
    raised = chances.pow(1 / TEMPERATURE)
    return raised / raised.sum(dim=1, keepdim=True)


def _places(rows: Tensor, wanted: Tensor) -> Tensor:
    """Where each wanted row stands among rows."""
    if not bool(torch.isin(wanted, rows).all()):
        raise RunError("Expected a message for every labelled row; predict on the training rows first.")
    ordered, order = rows.sort()
    return order[torch.searchsorted(ordered, wanted)]


def _head(embeddings: Tensor, classes: int) -> nn.Sequential:
    """Batch norm (with the statistics of all training rows), ReLU, and a linear layer of ones."""
    width = embeddings.shape[1]
    norm, linear = nn.BatchNorm1d(width), nn.Linear(width, classes)
    nn.init.ones_(linear.weight)
    norm.running_mean = embeddings.mean(dim=0).cpu()
    norm.running_var = embeddings.var(dim=0, unbiased=False).cpu()
    return nn.Sequential(norm, nn.ReLU(), linear).to(embeddings.device)


def _embed(bottom: nn.Module, features: Tensor | SparseRows, rows: Tensor, device: torch.device) -> Tensor:
    """Embeddings of some rows, flat, in pieces that fit in memory."""
    with torch.no_grad():
        parts = [bottom(features.index_select(0, part).to(device)).flatten(1) for part in rows.split(CHUNK)]
    return torch.cat(parts)


def interleaved(model: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Run two half batches, each half labelled and half not, so that batch norm sees both kinds."""
    logits = model(inputs[0::2]), model(inputs[1::2])
    order = torch.cat([torch.arange(0, len(inputs), 2), torch.arange(1, len(inputs), 2)])
    return torch.cat(logits)[order.argsort()]


def _average(average: nn.Module, head: nn.Module, shrink: float) -> None:
    """Move the averaged head towards the trained one (EMA), and shrink the trained one's weights."""
    with torch.no_grad():
        for slow, fast in zip(average.state_dict().values(), head.state_dict().values(), strict=True):
            if slow.is_floating_point():
                slow.lerp_(fast, 1 - EMA)
        for parameter in head.parameters():
            parameter.mul_(shrink)
