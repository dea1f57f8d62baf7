"""Marvell: the Gaussian noise of a given power that makes the gradients of two classes hardest to tell apart."""

from math import exp, inf, log, sqrt
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from cutlayer._validate import one_of, positive
from cutlayer.defence import Defence, Local, Place, Role, Setting
from cutlayer.errors import ConfigError
from cutlayer.rng import normal_like

Many = Literal["refuse", "one-vs-rest"]

GOLDEN = (sqrt(5) - 1) / 2
ROUNDS = 48  # of a golden section: shrinks an interval by 1e-10
MOST = 100  # times that the power is raised by half, where an error is asked for


class Marvell(Defence):
    """Add noise to gradients by class, with covariances that minimise what tells the classes apart.

    Per batch, gradients of each class are taken as Gaussian: means g1 and g0, one variance per class
    (v positives, u negatives). Noise has variance l1 along g1 - g0 and l2 <= l1 across, per class. With
    G = |g1 - g0|^2, p the share of positives and d the width, the four variances minimise the sum of
    both Kullback-Leibler divergences, at noise power p (l11 + (d-1) l21) + (1-p) (l10 + (d-1) l20) =
    `scale` * G. With `error`, the power is raised by half until the bound below reaches that number.

    In logarithms this is a convex problem, so there is one optimum. The published solver alternates
    between pairs of variances; here the variance across is found by a golden section over the published
    closed form for the two along. A test shows that both, and a generic solver, agree.

    Only messages are changed: the label party's own update stays clean. A batch of one class, or whose
    class means agree, is sent as it is. Labels must have two classes; `many=one-vs-rest` draws a class
    per batch as the positive one, which is not Li et al.'s and has no bound.

    Protects: labels; the label party applies it.
    Guarantee: for one message, under the Gaussian model: an attacker who tells positives from negatives by it errs,
    on average over both classes, at least 1/2 - sqrt(sumKL)/4 of the time. None across epochs,
    whose messages about a row add up, and none where gradients are not Gaussian.
    Does not hide: what several epochs add up to; the direction of g1 - g0, along which the noise is longest.
    Specification: baselines, section 7; vflrecon, section 5.
    Paper: Li et al., Label Leakage and Protection in Two-party Split Learning (arXiv:2102.08504).
    """

    strengths: ClassVar[tuple[str, ...]] = ("scale=0.25", "scale=1.0", "scale=4.0")

    def __init__(
        self,
        *,
        scale: float = 1.0,
        error: float | None = None,
        many: Many = "refuse",
    ) -> None:
        positive("scale", scale)
        if error is not None and not 0 < error < 0.5:
            raise ConfigError(
                f"Expected error={error} to lie between 0 and 0.5, where guesses are no better than chance."
            )
        one_of("many", many, get_args(Many))
        self.scale = scale
        self.error = error
        self.many = many

    def labels(self, labels: Tensor, setting: Setting) -> Tensor:
        """Refuse labels that are not of two classes; change none."""
        wrong = setting.classes < 2 or (setting.classes > 2 and self.many == "refuse")
        if setting.role is Role.LABEL_PARTY and wrong:
            advice = "leave marvell out" if setting.classes < 2 else "set many=one-vs-rest to draw one class per batch"
            raise ConfigError(
                f"Expected two classes for marvell, got {setting.classes or 'a regression task'}; {advice}."
            )
        return labels

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Add noise by class to gradients; leave everything else alone."""
        if local.place is not Place.GRADIENT or local.labels is None:
            return payload
        if local.labels.is_floating_point():
            raise ConfigError(
                "Expected class numbers for marvell, got weights per class; leave other label defences out."
            )
        chosen = torch.ones((), dtype=torch.int64)
        if local.classes > 2:
            chosen = local.rng.integers(local.classes)
        labels = (local.labels == chosen.to(local.labels.device)).to(payload.device)
        count = int(labels.sum())
        if not 0 < count < len(labels):
            return payload
        rows = payload.flatten(1)
        gap, spread, other = _facts(rows.double(), labels)
        squared = float(gap.square().sum())
        if not squared > 0:
            return payload
        noise = self._noise(spread / squared, other / squared, rows.shape[1], count / len(labels))
        along = torch.where(labels, noise.along1 - noise.across1, noise.along0 - noise.across0).clamp(min=0).sqrt()
        across = torch.where(labels, noise.across1, noise.across0).sqrt() * sqrt(squared)
        # `along` is still in units of |gap|, so that it times the gap itself is the noise
        blur = normal_like(rows[:, :1], local.rng) * along[:, None].to(rows) * gap.to(rows)
        blur = blur + normal_like(rows, local.rng) * across[:, None].to(rows)
        return (rows + blur).view_as(payload)

    def _noise(self, negatives: float, positives: float, width: int, share: float) -> "Noise":
        """Variances in units of G, at the power that is asked for or that the error needs."""
        power = self.scale
        noise = solve(negatives, positives, width, share, power)
        wanted = inf if self.error is None else (2 - 4 * self.error) ** 2
        for _ in range(MOST):
            if noise.divergence <= wanted:
                break
            power *= 1.5
            noise = solve(negatives, positives, width, share, power)
        return noise


class Noise(NamedTuple):
    """Variances of the noise on negatives (0) and positives (1), and the divergence that is left."""

    along0: float
    across0: float
    along1: float
    across1: float
    divergence: float  # sum of both Kullback-Leibler divergences


def solve(u: float, v: float, width: int, p: float, power: float) -> Noise:
    """The best noise for G = 1: u, v variances of negatives and positives, p the share of positives.

    The class that varies more gets no noise across (Li et al., Theorem 2), so one variance across is sought, c.
    """
    if u > v:
        along1, across1, along0, across0, divergence = solve(v, u, width, 1 - p, power)
        return Noise(along0, across0, along1, across1, divergence)
    others = (width - 1) * (1 - p)  # what a unit of c costs

    def at(c: float) -> Noise:
        return _along(u, v, width, p, power - others * c, c)

    highest = min(v - u, power / (others + 1 - p)) if width > 1 else 0.0  # beyond, c > l1 or c + u > v
    if highest <= 0:
        return at(0.0)
    # convex in log(c + u), where u = 0 has no lower end: 1e-12 of the upper one is as good
    low, high = log(max(u, 1e-12 * highest)), log(u + highest)
    c1, c2 = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    f1, f2 = (at(exp(c) - u).divergence for c in (c1, c2))
    for _ in range(ROUNDS):
        if f1 < f2:
            high, c2, f2 = c2, c1, f1
            c1 = high - GOLDEN * (high - low)
            f1 = at(exp(c1) - u).divergence
        else:
            low, c1, f1 = c1, c2, f2
            c2 = low + GOLDEN * (high - low)
            f2 = at(exp(c2) - u).divergence
    return min((at(c) for c in (0.0, max(0.0, exp((low + high) / 2) - u), highest)), key=lambda noise: noise.divergence)


def _along(u: float, v: float, width: int, p: float, left: float, c: float) -> Noise:
    """The best variances along the gap for a given one across, c, and the power that is left.

    With a = l10 + u, b = l11 + v and t = b / a, power fixes C = (1-p) a + p b, and what is minimised is
    t (1 + p/C) + (1 + (1-p)/C) / t: convex in t, so its minimum is moved to where l10 >= c and l11 >= 0.
    """
    left = max(left, (1 - p) * c)
    total = left + (1 - p) * u + p * v
    ratio = sqrt((total + 1 - p) / (total + p))
    a = min(max(total / (1 - p + p * ratio), u + c), u + left / (1 - p))
    b = v + max(0.0, left - (1 - p) * (a - u)) / p
    if a <= 0 or b <= 0:
        return Noise(a - u, c, b - v, 0.0, inf)
    divergence = (a - b) ** 2 / (2 * a * b) + (1 / a + 1 / b) / 2
    if width > 1 and u + c != v:
        divergence += (width - 1) * ((u + c - v) ** 2 / (2 * (u + c) * v) if u + c > 0 else inf)
    return Noise(a - u, c, b - v, 0.0, divergence)


def _facts(rows: Tensor, positives: Tensor) -> tuple[Tensor, float, float]:
    """Difference of the class means, and the mean variance of a coordinate in negatives and in positives."""
    ones, zeros = rows[positives], rows[~positives]
    spread, other = (float((part - part.mean(dim=0)).square().mean()) for part in (zeros, ones))
    return ones.mean(dim=0) - zeros.mean(dim=0), spread, other
