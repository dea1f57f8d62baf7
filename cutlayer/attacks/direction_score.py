"""Direction score: gradients of one class point one way, so one known positive gives away the rest."""

from typing import ClassVar

import torch
from torch import Generator, Tensor

from cutlayer._validate import at_least
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.defence import Role
from cutlayer.errors import RunError
from cutlayer.message import Kind
from cutlayer.transcript import LAST
from cutlayer.view import Manifest, View


class DirectionScore(Attack):
    """Score each training row by the cosine between its gradient and those of known positives.

    The paper's code hands the attacker, in every batch, the clean gradient of a random positive
    of that batch: an oracle. Here the attacker knows the labels of a few rows, once, and takes
    the gradients of the positive ones as it received them, defended and from whichever batch they
    fell in. Directions drift little within one epoch, so these serve for all batches; where they
    drift more, this attack is weaker than the paper's. With several
    known positives the score is the mean cosine. Scores are never turned round.

    Sees: the gradients that the label party sent in the last kept epoch.
    Needs: `positives` rows known to be positive (as many negatives are granted with them, and not
    used); two classes.
    Specification: baselines, section 2.
    Paper: Li et al., Label Leakage and Protection in Two-party Split Learning (arXiv:2102.08504).
    """

    target: ClassVar[Target] = Target.LABELS
    by: ClassVar[Role] = Role.FEATURE_PARTY

    def __init__(self, *, positives: int = 1) -> None:
        at_least("positives", positives, 1)
        self.positives = positives

    @property
    def asks(self) -> Asks:
        """Half of an even sample of two classes is positive."""
        return Asks(labels=2 * self.positives)

    def applies(self, manifest: Manifest) -> str | None:
        """Two classes only."""
        return super().applies(manifest) or ("binary-only" if manifest.classes != 2 else None)

    def run(self, view: View, rng: Generator) -> Guess:
        """Compare directions."""
        rows, gradients, steps = view.channel(Kind.GRADIENT, peer=view.attacker).read(epoch=LAST)
        known = torch.isin(rows, _positives(view))
        if not known.any():
            raise RunError("Expected a known positive among the kept gradients, found none; train with --keep last.")
        return Guess(rows, mean_cosine(gradients.flatten(1), known), Form.SCORES, groups=steps)


def mean_cosine(gradients: Tensor, known: Tensor) -> Tensor:
    """Each row's mean cosine with the known rows; 0 for a row of zeros."""
    peak = gradients.abs().amax(dim=1, keepdim=True)  # or the squares of small gradients underflow
    scaled = gradients / peak.where(peak > 0, 1.0)
    length = torch.linalg.vector_norm(scaled, dim=1)
    length = length.where(length > 0, 1.0)
    towards = (scaled[known] / length[known, None]).mean(dim=0)
    cosine: Tensor = scaled @ towards / length
    return cosine


def _positives(view: View) -> Tensor:
    hint = view.hints.labels
    return torch.empty(0, dtype=torch.int64) if hint is None else hint.rows[hint.values == 1]
