"""Norm score: the rarer class pulls harder, so a long gradient means a positive label."""

from typing import ClassVar

import torch
from torch import Generator, Tensor

from cutlayer._validate import at_least
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.defence import Role
from cutlayer.errors import ConfigError
from cutlayer.message import Kind
from cutlayer.transcript import LAST
from cutlayer.view import Manifest, View


class NormScore(Attack):
    """Score each training row by the length of its gradient.

    Scores are comparable within a batch, where all rows met the same weights, so the guess says
    which batch each belongs to. They are never turned round: a defence that makes positives short
    shows as an AUC below one half.

    With `shadow` rows it says which rows are positive: the length that best parts the classes in one rehearsal of as
    many epochs, in units of one row's loss, is the threshold.

    Sees: the gradients that the label party sent in the last kept epoch.
    Needs: nothing else, or `shadow` complete rows that are not trained on; two classes.
    Cost: milliseconds; with `shadow` 1 s (results/vflrecon).
    Specification: baselines, section 2; vflrecon, section 6 (`shadow`).
    Paper: Li et al., Label Leakage and Protection in Two-party Split Learning (arXiv:2102.08504).
    """

    target: ClassVar[Target] = Target.LABELS
    by: ClassVar[Role] = Role.FEATURE_PARTY

    def __init__(self, *, shadow: int = 0) -> None:
        at_least("shadow", shadow, 0)
        self.shadow = shadow

    @property
    def asks(self) -> Asks:
        """Shadow rows, if any."""
        return Asks(shadow=self.shadow)

    def applies(self, manifest: Manifest) -> str | None:
        """Two classes only."""
        return super().applies(manifest) or ("binary-only" if manifest.classes != 2 else None)

    def run(self, view: View, rng: Generator) -> Guess:
        """Take norms."""
        rows, norms, steps = _norms(view)
        if not self.shadow:
            return Guess(rows, norms, Form.SCORES, groups=steps)
        if view.hints.shadow is None:
            raise ConfigError("Expected shadow data for norm-score: complete rows that are not trained on.")
        seed = int(torch.randint(2**31, (), generator=rng))
        rehearsal = view.hints.shadow.rehearse(seed, view.manifest.recipe.epochs, True)
        practised, lengths, _ = _norms(rehearsal)
        threshold = best_split(lengths * _batch(rehearsal), view.hints.shadow.labels[practised])
        return Guess(rows, (norms * _batch(view) >= threshold).long(), Form.CLASSES)


def _norms(view: View) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the last kept epoch, the lengths of their gradients, and their steps."""
    rows, gradients, steps = view.channel(Kind.GRADIENT, peer=view.attacker).read(epoch=LAST)
    # Doubles: the squares of small gradients underflow in single precision and would all tie.
    return rows, torch.linalg.vector_norm(gradients.flatten(1), dim=1, dtype=torch.float64), steps


def _batch(view: View) -> int:
    return min(view.manifest.recipe.batch_size, len(view.manifest.train))


def best_split(scores: Tensor, labels: Tensor) -> float:
    """The threshold at and above which calling rows positive is right most often."""
    order = scores.argsort()
    ordered = labels[order].double()
    right = torch.cat([torch.zeros(1), (1 - ordered).cumsum(0)]) + torch.cat(
        [ordered.flip(0).cumsum(0).flip(0), torch.zeros(1)]
    )
    right[1:-1][scores[order].diff() == 0] = -1  # equal scores cannot be parted
    place = int(right.argmax())
    return float(scores[order[place]]) if place < len(scores) else float("inf")
