"""Model completion: put a small head on one's own trained bottom and teach it a few known labels."""

import copy
from itertools import chain
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from cutlayer._validate import at_least, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.defence import Role
from cutlayer.errors import ConfigError
from cutlayer.rng import Stream, numpy_generator
from cutlayer.sparse import SparseRows
from cutlayer.view import Known, View

CHUNK = 4096
BATCH = 16
TEMPERATURE = 0.8
BETA = 0.75
MOST_WEIGHT = 50.0
EMA = 0.999
SHRINK = 0.02


class ModelCompletion(Attack):
    """Passive model completion, PMC (baselines.md, section 1).

    The bottom was trained by the true labels, so its outputs already sort by class, and a head
    (batch norm, ReLU, linear with weights that start at 1) needs few labels to name them.

    By default the bottom is frozen and only the known labels teach the head: `epochs` steps
    (300) of Adam at 5e-3, the cheaper variant of FedAdOb's co-authors. The head's batch norm
    takes its statistics from all training rows, which the attacker holds. With `ssl` the
    unlabelled rows teach it too, by MixMatch on mixed inputs as published (bottom frozen, its
    batch norm on batch statistics, EMA of the head): `epochs` (10) of `steps` steps of Adam at
    2e-3; the paper takes epochs=25, steps=1024. The last epoch counts, not the best.

    Sees: no message at all.
    Needs: its own trained bottom and columns, and `labels` labelled training rows.
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
    ) -> None:
        at_least("labels", labels, 1)
        at_least("steps", steps, 1)
        if epochs is not None:
            at_least("epochs", epochs, 1)
        if lr is not None:
            positive("lr", lr)
        self.labels = labels
        self.ssl = ssl
        self.epochs = epochs
        self.steps = steps
        self.lr = lr

    @property
    def asks(self) -> Asks:
        """A few labels."""
        return Asks(labels=self.labels)

    def run(self, view: View, rng: Generator) -> Guess:
        """Teach a head and apply it to every training row."""
        own, known = view.own[view.attacker], view.hints.labels
        if own.bottom is None or own.features is None or known is None or not len(known.rows):
            raise ConfigError("Expected an attacker with columns, a bottom and known labels for model-completion.")
        bottom = copy.deepcopy(own.bottom).eval().requires_grad_(False)
        seed = int(torch.randint(2**62, (), generator=rng))
        device = next((p.device for p in bottom.parameters()), torch.device("cpu"))
        stream = Stream(seed, "model-completion", device=device)
        rows = view.manifest.train
        with stream.scope():
            embeddings = _embed(bottom, own.features, rows, device)
            head = _head(embeddings, view.manifest.classes)
            if self.ssl:
                head = self._mix_match(bottom, head, own.features, rows, known, seed)
            else:
                place = _embed(bottom, own.features, known.rows, device)
                self._fit(head, place, known.values.to(device))
            with torch.no_grad():
                classes = head.eval()(embeddings).argmax(dim=1)
        return Guess(rows, classes.cpu(), Form.CLASSES)
