"""LabelDP: train on labels that were answered at random, once, before training."""

from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from cutlayer._validate import non_negative, one_of, positive
from cutlayer.defence import Defence, Role, Setting
from cutlayer.errors import ConfigError

HISTOGRAM_SHARE = 0.1  # of epsilon, where the prior has to be learned from the labels


class LabelDP(Defence):
    """Randomise the label party's own training labels.

    `mode="rr"` is randomised response (LP-1ST): of C classes, the true one is kept with
    probability e^eps / (e^eps + C - 1), else another is drawn evenly. `mode="rr-with-prior"`
    answers among the k likeliest classes only, with the k that keeps most labels. Its `prior`
    must be public. The label party's own class frequencies are not: they depend on every label,
    so taking them as they are would void the guarantee. With `prior=None` they are therefore
    counted with Laplace noise, at a tenth of epsilon, and the answers get the other nine tenths.

    Labels are drawn once, by the label party alone, for the whole run, so repeated epochs reveal
    no more.

    Guarantee: epsilon-label-differential privacy, for each label, of all that is computed from the
    drawn labels (gradients, models, predictions), whatever a feature party does or knows.
    Does not hide: class sizes, or what features alone tell about a label; at eps = 1 and two
    classes 73 % of the labels stay true.
    Specification: baselines, section 10.
    Paper: Ghazi et al., Deep Learning with Label Differential Privacy (arXiv:2102.06062). Their
    published code has its weights off by one; this follows the paper.
    """

    strengths: ClassVar[tuple[str, ...]] = ("epsilon=4.0", "epsilon=2.0", "epsilon=1.0")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        mode: Literal["rr", "rr-with-prior"] = "rr",
        prior: tuple[float, ...] | None = None,
    ) -> None:
        positive("epsilon", epsilon)
        one_of("mode", mode, ("rr", "rr-with-prior"))
        if prior is not None:
            if mode == "rr":
                raise ConfigError("Expected a prior only with mode=rr-with-prior, got one with mode=rr.")
            for value in prior:
                non_negative("prior", value)
            positive("sum of prior", sum(prior))
        self.epsilon = epsilon
        self.mode = mode
        self.prior = prior

    def labels(self, labels: Tensor, setting: Setting) -> Tensor:
        """Draw the labels to train on."""
        if setting.role is not Role.LABEL_PARTY:
            return labels
        if setting.classes == 0:
            raise ConfigError("Expected classes to randomise, got a regression task; leave label-dp out.")
        if labels.ndim != 1 or labels.is_floating_point():
            raise ConfigError("Expected class numbers to randomise; put label-dp before other label defences.")
        if self.mode == "rr":
            return randomised_response(labels, setting.classes, self.epsilon, setting.rng)
        prior, epsilon = self._public_prior(labels, setting)
        return rr_with_prior(labels, prior[None], epsilon, setting.rng)

    def _public_prior(self, labels: Tensor, setting: Setting) -> tuple[Tensor, float]:
        if self.prior is None:
            spent = HISTOGRAM_SHARE * self.epsilon
            return noisy_frequencies(labels, setting.classes, spent, setting.rng), self.epsilon - spent
        if len(self.prior) != setting.classes:
            raise ConfigError(f"Expected a prior over {setting.classes} classes, got {len(self.prior)} numbers.")
        return torch.tensor(self.prior, dtype=torch.float64), self.epsilon


def randomised_response(labels: Tensor, classes: int, epsilon: float, rng: Generator) -> Tensor:
    """Keep each label with probability e^eps / (e^eps + classes - 1), else draw one of the others."""
    return _answer(labels, torch.arange(classes)[None], torch.tensor([classes]), epsilon, rng)


def rr_with_prior(labels: Tensor, priors: Tensor, epsilon: float, rng: Generator) -> Tensor:
    """Answer among each row's k* likeliest classes. `priors` is one row for all labels, or one each.

    k* maximises e^eps / (e^eps + k - 1) * (sum of the k largest priors), the chance of answering
    truly. A label outside the k* gets an even draw over them. Scaling a prior changes nothing.
    """
    ranked, order = priors.double().sort(dim=1, descending=True, stable=True)
    chance = ranked.cumsum(dim=1) * _keeps(torch.arange(1, priors.shape[1] + 1, device=priors.device), epsilon)
    return _answer(labels, order, chance.argmax(dim=1) + 1, epsilon, rng)


def noisy_frequencies(labels: Tensor, classes: int, epsilon: float, rng: Generator) -> Tensor:
    """Class frequencies under epsilon-label-DP: one changed label moves two counts by one each."""
    counts = torch.bincount(labels, minlength=classes).double()
    drawn = torch.empty(2, classes, dtype=torch.float64, device=rng.device).exponential_(generator=rng)
    noise = (drawn[0] - drawn[1]) * (2 / epsilon)  # the difference of two exponentials is Laplace
    noisy = (counts + noise.to(counts.device)).clamp(min=0)
    return noisy / noisy.sum() if noisy.sum() > 0 else torch.full_like(noisy, 1 / classes)


def _keeps(choices: Tensor, epsilon: float) -> Tensor:
    """e^eps / (e^eps + choices - 1), without overflow."""
    return 1 / (1 + (choices - 1).double() * torch.exp(torch.tensor(-epsilon, dtype=torch.float64)).item())


def _answer(labels: Tensor, order: Tensor, count: Tensor, epsilon: float, rng: Generator) -> Tensor:
    """Randomised response within the first `count` classes of `order` (each one row, or one per label)."""
    order, count = order.to(labels.device), count.to(labels.device)
    draws = torch.rand(2, len(labels), generator=rng, dtype=torch.float64, device=rng.device).to(labels.device)
    place = order.argsort(dim=1).expand(len(labels), -1).gather(1, labels[:, None])[:, 0]
    inside = place < count
    keep = inside & (draws[0] < _keeps(count, epsilon))
    others = (count - inside.long()).clamp(min=1)
    other = (draws[1] * others).long().minimum(others - 1)
    other = other + (inside & (other >= place)).long()  # step over the true class
    other = other.clamp(max=order.shape[1] - 1)  # where the true class is the only one, it was kept
    return order.expand(len(labels), -1).gather(1, torch.where(keep, place, other)[:, None])[:, 0]
