"""Norm score: the rarer class pulls harder, so a long gradient means a positive label."""

from typing import ClassVar

import torch
from torch import Generator

from cutlayer.attack import Attack, Form, Guess, Target
from cutlayer.defence import Role
from cutlayer.message import Kind
from cutlayer.transcript import LAST
from cutlayer.view import Manifest, View


class NormScore(Attack):
    """Score each training row by the length of its gradient.

    Scores are comparable within a batch, where all rows met the same weights, so the guess says
    which batch each belongs to. They are never turned round: a defence that makes positives short
    shows as an AUC below one half.

    Sees: the gradients that the label party sent in the last kept epoch.
    Needs: nothing else; two classes.
    Specification: baselines, section 2.
    Paper: Li et al., Label Leakage and Protection in Two-party Split Learning (arXiv:2102.08504).
    """

    target: ClassVar[Target] = Target.LABELS
    by: ClassVar[Role] = Role.FEATURE_PARTY

    def applies(self, manifest: Manifest) -> str | None:
        """Two classes only."""
        return super().applies(manifest) or ("binary-only" if manifest.classes != 2 else None)

    def run(self, view: View, rng: Generator) -> Guess:
        """Take norms."""
        rows, gradients, steps = view.channel(Kind.GRADIENT, peer=view.attacker).read(epoch=LAST)
        # Doubles: the squares of small gradients underflow in single precision and would all tie.
        norms = torch.linalg.vector_norm(gradients.flatten(1), dim=1, dtype=torch.float64)
        return Guess(rows, norms, Form.SCORES, groups=steps)
