"""LabelDP: train on labels that were answered at random, once, before training or stage by stage."""

from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from cutlayer._validate import at_least, non_negative, one_of, positive
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Course, Defence, Local, Place, Role, Setting, Subject
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.privacy import Guarded, Observer, Privacy

Mode = Literal["rr", "rr-with-prior"]

HISTOGRAM_SHARE = 0.1  # of epsilon, where the prior has to be learned from the labels


class LabelDP(Defence):
    """Randomise the label party's own training labels.

    `mode="rr"` is randomised response (LP-1ST): of C classes, the true one is kept with
    probability e^`epsilon` / (e^`epsilon` + C - 1), else another is drawn evenly. `mode="rr-with-prior"`
    answers among the k likeliest classes only, with the k that keeps most labels. Its `prior`
    must be public. The label party's own class frequencies are not: they depend on every label,
    so taking them as they are would void the guarantee. With `prior=None` they are therefore
    counted with Laplace noise, at a tenth of epsilon, and the answers get the other nine tenths.

    Labels are drawn once, by the label party alone, for the whole run, so repeated epochs reveal
    no more.

    `stages=2` (LP-2ST; more: LP-MST) lets the model say which answers are likely. A random `share` of the rows is
    answered by `mode="rr"` when it is first met; the others, split evenly over the later stages, are left out at
    first (weight zero: no loss, no gradient) for `first` epochs per earlier stage. Then each is answered as in
    `rr-with-prior`, its prior being softmax(logits / `temperature`) of its last visit. The paper's mixup is left out,
    and training goes on from the earlier stages' weights, where the paper begins anew.

    Protects: labels; the label party applies it.
    Guarantee: epsilon-label-differential privacy, for each label, of all that is computed from the
    drawn labels (gradients, models, predictions), whatever a feature party does or knows. In stages too: a label is
    used once, by an epsilon-private answer whose prior depends on the answers of other rows alone (parallel
    composition). That is for one run: resumed from a checkpoint it draws the same numbers, so honest parties see the
    same answers; but feature parties who make it resume, and then send other embeddings, change priors and so get
    further answers of the labels that were answered since the checkpoint.
    Does not hide: class sizes, or what features alone tell about a label; at eps = 1 and two
    classes 73 % of the labels stay true. Which stage a row is in.
    Specification: baselines, section 10.
    Paper: Ghazi et al., Deep Learning with Label Differential Privacy (arXiv:2102.06062), Algorithm 3 for stages. Their
    published code has its weights off by one; this follows the paper.
    """

    strengths: ClassVar[tuple[str, ...]] = ("epsilon=4.0", "epsilon=2.0", "epsilon=1.0")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        mode: Mode = "rr",
        prior: tuple[float, ...] | None = None,
        stages: int = 1,
        first: int = 10,
        share: float = 0.6,
        temperature: float = 0.5,
    ) -> None:
        positive("epsilon", epsilon)
        one_of("mode", mode, get_args(Mode))
        if prior is not None:
            if mode == "rr":
                raise ConfigError("Expected a prior only with mode=rr-with-prior, got one with mode=rr.")
            for value in prior:
                non_negative("prior", value)
            positive("sum of prior", sum(prior))
        at_least("stages", stages, 1)
        if stages > 1 and mode != "rr":
            raise ConfigError(
                f"Expected mode=rr with stages={stages}, got mode={mode}; later stages learn their priors."
            )
        at_least("first", first, 1)
        if not 0 < share < 1:
            raise ConfigError(f"Expected share={share} to lie between 0 and 1, and to be neither.")
        positive("temperature", temperature)
        self.epsilon = epsilon
        self.mode = mode
        self.prior = prior
        self.stages = stages
        self.first = first
        self.share = share
        self.temperature = temperature

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """In stages: put beside the top what was answered so far."""
        if self.stages == 1 or setting.role is not Role.LABEL_PARTY or setting.subject is not Subject.TOP:
            return model
        return Stages(model, self._stages(setting.rows, setting.rng), setting.classes)

    def _stages(self, rows: int, rng: Draws) -> Tensor:
        """Draw the stage of each row, from 0."""
        drawn = rng.uniform((rows,))
        later = 1 + ((drawn - self.share) / (1 - self.share) * (self.stages - 1)).long()
        return torch.where(drawn < self.share, 0, later.clamp(max=self.stages - 1))

    def labels(self, labels: Tensor, setting: Setting) -> Tensor:
        """Draw the labels to train on; in stages, `batch` does."""
        if setting.role is not Role.LABEL_PARTY:
            return labels
        if setting.classes == 0:
            raise ConfigError("Expected classes to randomise, got a regression task; leave label-dp out.")
        if labels.ndim != 1 or labels.is_floating_point():
            raise ConfigError("Expected class numbers to randomise; put label-dp before other label defences.")
        if self.stages > 1:
            return labels
        if self.mode == "rr":
            return randomised_response(labels, setting.classes, self.epsilon, setting.rng)
        prior, epsilon = self._public_prior(labels, setting)
        return rr_with_prior(labels, prior[None], epsilon, setting.rng)

    def batch(self, values: Tensor | SparseRows, local: Local) -> Tensor | SparseRows:
        """In stages: answer rows whose turn has come, leave out those whose turn is later."""
        if self.stages == 1 or local.place is not Place.LABELS:
            return values
        assert isinstance(values, Tensor) and local.outputs is not None and local.top is not None
        labels, outputs = values, local.outputs
        held = next(module for module in local.top.modules() if isinstance(module, Stages))
        classes = held.priors.shape[1]
        if labels.ndim != 1 or labels.is_floating_point():
            raise ConfigError("Expected class numbers to answer in stages; leave out defences that make soft labels.")
        if outputs.shape[1] != classes:
            raise ConfigError(f"Expected a top of {classes} outputs for label-dp in stages, got {outputs.shape[1]}.")
        rows = local.rows
        stage, visits = held.stages[rows], held.visits[rows]
        waiting = visits < stage * self.first
        held.visits[rows] = visits + 1
        held.priors[rows[waiting]] = (outputs[waiting] / self.temperature).softmax(dim=1).to(held.priors)
        due = ~waiting & (held.answers[rows] < 0)
        now, later = due & (stage == 0), due & (stage > 0)
        if now.any():
            held.answers[rows[now]] = randomised_response(labels[now], classes, self.epsilon, local.rng)
        if later.any():
            priors = held.priors[rows[later]]
            held.answers[rows[later]] = rr_with_prior(labels[later], priors, self.epsilon, local.rng)
        answers = held.answers[rows]
        if not waiting.any():
            return answers
        return one_hot(answers.clamp(min=0), classes).to(outputs.dtype) * ~waiting[:, None]

    def notes(self, course: Course) -> tuple[str, ...]:
        """Say if training ended before the last stage."""
        before = (self.stages - 1) * self.first
        if self.stages == 1 or course.epochs > before:
            return ()
        return (f"label-dp: the last of {self.stages} stages, after {before} epochs, was not reached",)

    @property
    def covers_top(self) -> bool:
        """The top is trained on answers."""
        return True

    def privacy(self, course: Course) -> Privacy:
        """Each label is used once, so epochs and parties add nothing."""
        return Privacy("label-dp", Guarded.LABEL, Observer.FEATURE_PARTIES, self.epsilon)

    @property
    def label_path(self) -> bool:
        """Where answers follow from counted labels, one label moves the answers of other rows."""
        return self.mode == "rr-with-prior" and self.prior is None

    def _public_prior(self, labels: Tensor, setting: Setting) -> tuple[Tensor, float]:
        if self.prior is None:
            spent = HISTOGRAM_SHARE * self.epsilon
            return noisy_frequencies(labels, setting.classes, spent, setting.rng), self.epsilon - spent
        if len(self.prior) != setting.classes:
            raise ConfigError(f"Expected a prior over {setting.classes} classes, got {len(self.prior)} numbers.")
        return torch.tensor(self.prior, dtype=torch.float64), self.epsilon


class Stages(nn.Module):
    """A top, and what is known of each row of the label party's table; saved and restored with the model."""

    stages: Tensor  # from 0
    visits: Tensor  # in training, so far
    priors: Tensor  # what the model last made of a row that waits, per class
    answers: Tensor  # the class to train on; -1: none yet. Never drawn twice, or epsilon would be spent twice

    def __init__(self, top: nn.Module, stages: Tensor, classes: int) -> None:
        super().__init__()
        self.top = top
        self.register_buffer("stages", stages)
        self.register_buffer("visits", torch.zeros_like(stages))
        self.register_buffer("priors", torch.zeros(len(stages), classes))
        self.register_buffer("answers", torch.full_like(stages, -1))

    def forward(self, joint: Tensor) -> Tensor:
        """Run the top."""
        outputs: Tensor = self.top(joint)
        return outputs


def randomised_response(labels: Tensor, classes: int, epsilon: float, rng: Draws) -> Tensor:
    """Keep each label with probability e^eps / (e^eps + classes - 1), else draw one of the others."""
    return _answer(labels, torch.arange(classes)[None], torch.tensor([classes]), epsilon, rng)


def rr_with_prior(labels: Tensor, priors: Tensor, epsilon: float, rng: Draws) -> Tensor:
    """Answer among each row's k* likeliest classes. `priors` is one row for all labels, or one each.

    k* maximises e^eps / (e^eps + k - 1) * (sum of the k largest priors), the chance of answering
    truly. A label outside the k* gets an even draw over them. Scaling a prior changes nothing.
    """
    ranked, order = priors.double().sort(dim=1, descending=True, stable=True)
    chance = ranked.cumsum(dim=1) * _keeps(torch.arange(1, priors.shape[1] + 1, device=priors.device), epsilon)
    return _answer(labels, order, chance.argmax(dim=1) + 1, epsilon, rng)


def noisy_frequencies(labels: Tensor, classes: int, epsilon: float, rng: Draws) -> Tensor:
    """Class frequencies under epsilon-label-DP: one changed label moves two counts by one each."""
    counts = torch.bincount(labels, minlength=classes).double()
    # whole numbers, which floating point cannot give away: the difference of two geometric ones
    drawn = (rng.exponential((2, classes)) * (2 / epsilon)).floor()
    noise = drawn[0] - drawn[1]
    noisy = (counts + noise.to(counts.device)).clamp(min=0)
    return noisy / noisy.sum() if noisy.sum() > 0 else torch.full_like(noisy, 1 / classes)


def _keeps(choices: Tensor, epsilon: float) -> Tensor:
    """e^eps / (e^eps + choices - 1), without overflow."""
    return 1 / (1 + (choices - 1).double() * torch.exp(torch.tensor(-epsilon, dtype=torch.float64)).item())


def _answer(labels: Tensor, order: Tensor, count: Tensor, epsilon: float, rng: Draws) -> Tensor:
    """Randomised response within the first `count` classes of `order` (each one row, or one per label)."""
    order, count = order.to(labels.device), count.to(labels.device)
    draws = rng.uniform((2, len(labels))).to(labels.device)
    place = order.argsort(dim=1).expand(len(labels), -1).gather(1, labels[:, None])[:, 0]
    inside = place < count
    keep = inside & (draws[0] < _keeps(count, epsilon))
    others = (count - inside.long()).clamp(min=1)
    other = (draws[1] * others).long().minimum(others - 1)
    other = other + (inside & (other >= place)).long()  # step over the true class
    other = other.clamp(max=order.shape[1] - 1)  # where the true class is the only one, it was kept
    return order.expand(len(labels), -1).gather(1, torch.where(keep, place, other)[:, None])[:, 0]
