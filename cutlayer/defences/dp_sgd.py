"""DP-SGD: clip what each row contributes, add Gaussian noise, and count the privacy that is spent."""

import warnings
from collections.abc import Sequence
from math import sqrt
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from cutlayer._validate import non_negative, one_of, positive
from cutlayer.blocks.accountant import gaussian_noise, released_epsilon
from cutlayer.blocks.gaussian_mechanism import blurred, rounding
from cutlayer.defence import Course, Defence, Local, Place, Setting, changes
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.privacy import Guarded, Observer, Privacy
from cutlayer.recipe import Recipe

Where = Literal["gradient", "logits", "embedding", "parameters"]
NOISE = 3.3
CLEAN = {  # places whose noise comes after what learns
    "gradient": "the top is trained on clean labels",
    "embedding": "the bottom is trained on clean rows",
}


class DpSgd(Defence):
    """Clip each row to norm `clip` and add N(0, (noise * clip)^2) per entry, in one of four places.

    - `where=gradient`: the gradients that the label party sends. Its own top is updated without noise.
    - `where=logits`: the loss's gradient at the logits, from which top, bottoms and messages all follow.
    - `where=embedding`: the embeddings that a feature party sends, in training and prediction.
    - `where=parameters`: DP-SGD proper, by Opacus (`pip install 'cutlayer[dp]'`): every party clips each
      row's gradient over all its parameters, sums, and adds noise to the sum. Messages stay as they are.

    Gradients are clipped in units of one row's own loss: the factor 1/B of the mean loss is taken out and put
    back. `epsilon` is that of the whole run: `noise` is then what its epochs and parties need at `delta`. Messages get
    discrete Gaussian noise (cutlayer/blocks/gaussian_mechanism.py).

    Every peer knows who is in a batch, and outsiders know it from the run's seed, so there is no amplification by
    subsampling: a row counts once per epoch.

    Protects: labels and features; the label party with `where=gradient` or `logits`, each feature party with
    `where=embedding`, every party with `where=parameters`.
    Guarantee: (epsilon, delta)-differential privacy as run.json states it, for two of the four places. logits: of one
    label in place of another, in all that feature parties get or train, however many they are. parameters: of one
    record, there or not, in the models of all parties, to those who see no messages and as far as
    floating-point sums are exact. gradient and embedding state no epsilon: the top and the bottoms are
    trained on clean values, so one label moves other rows' messages without noise. Nor do the others where labels
    have further ways: other defences that carry labels, regression (scaled by the mean of all targets). A resumed run
    repeats its noise: feature parties who make it resume, and then send other embeddings, lift it.
    Does not hide: what is true of many rows, such as a class's direction in gradients; what the label party itself
    prints (losses, scores), or that it ends a run whose loss is not a number; labels of validation rows, by the epoch
    at which patience ends training; with parameters, anything that messages tell; with embedding, labels; with the
    others, features.
    Specification: baselines, section 8; vflrecon, sections 5 and 8.
    Paper: Abadi et al., Deep Learning with Differential Privacy (arXiv:1607.00133), as compared by Zhu et al.,
    Table VI, who state neither place, clip nor delta.
    """

    strengths: ClassVar[tuple[str, ...]] = ("noise=1.0", "noise=3.3", "noise=10.0")

    def __init__(
        self,
        *,
        noise: float | None = None,
        clip: float = 1.0,
        where: Where = "gradient",
        delta: float = 1e-5,
        epsilon: float | None = None,
    ) -> None:
        positive("clip", clip)
        one_of("where", where, get_args(Where))
        if not 0 < delta < 1:
            raise ConfigError(f"Expected delta={delta} to lie between 0 and 1.")
        if epsilon is None:
            noise = NOISE if noise is None else noise
            non_negative("noise", noise)
        else:
            positive("epsilon", epsilon)
            if noise is not None:
                raise ConfigError(
                    f"Expected noise or epsilon, got noise={noise} and epsilon={epsilon}; drop one of them."
                )
            if where in CLEAN:
                raise ConfigError(
                    f"Expected where=logits or where=parameters with epsilon={epsilon}, got where={where}, which has "
                    f"none: {CLEAN[where]}; give noise instead."
                )
        self.noise = noise
        self.clip = clip
        self.where = where
        self.delta = delta
        self.epsilon = epsilon

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Clip rows and add fresh noise; the owner back-propagates through clipping as through a constant."""
        if local.place.value != self.where:
            return payload
        batch = 1 if local.place is Place.EMBEDDING else max(len(payload), 1)
        rows = payload.flatten(1) * batch
        length = torch.linalg.vector_norm(rows.detach(), dim=1, keepdim=True, dtype=torch.float64)
        rows = rows * (self.clip / length).clamp(max=1.0).to(rows.dtype)  # a zero row: infinity, so 1
        rows = blurred(rows, self.multiplier(local.course) * self.clip, local.rng)
        sent: Tensor = (rows / batch).view_as(payload)
        return sent

    def multiplier(self, course: Course | None) -> float:
        """Standard deviation of the noise over `clip`: as given, or what a run needs to spend `epsilon`."""
        if self.noise is not None:
            return self.noise
        if course is None or self.epsilon is None:
            raise ConfigError("Expected a run of known length to find the noise for epsilon; give noise instead.")
        return gaussian_noise(self.epsilon, self.delta, *self._released(course))

    def optimiser(
        self, optimiser: Optimizer, modules: Sequence[nn.Module], setting: Setting, recipe: Recipe
    ) -> Optimizer:
        """Wrap the optimiser so that it clips and sums each row's gradient, and adds noise from the party's stream."""
        if self.where != "parameters":
            return optimiser
        opacus = _opacus()
        for module in modules:
            if any(isinstance(part, _BatchNorm) for part in module.modules()):
                raise ConfigError(
                    f"Expected models without batch norm for dp-sgd on parameters, got one at {setting.party}: "
                    "it mixes rows, which then cannot be clipped one by one."
                )
            hooks = type("Hooks", (opacus.grad_sample.GradSampleHooks,), {"__deepcopy__": _without_hooks})
            try:
                hooks(module, loss_reduction="mean")
            except NotImplementedError as error:
                raise ConfigError(f"Opacus cannot take the model of {setting.party}: {error}.") from error
        # torch says this for every first layer, whose inputs need no gradient
        warnings.filterwarnings("ignore", message="Full backward hook is firing", category=UserWarning)
        noise = self.multiplier(setting.course)
        entries = sum(p.numel() for module in modules for p in module.parameters() if p.requires_grad)
        room = 1 - noise * rounding(entries)  # rounding to the grid may move two sums further apart
        if room <= 0:
            raise ConfigError(
                f"Expected less noise than {noise:g} for {entries} parameters: rounding would exceed clip."
            )
        wrapped: Optimizer = _optimiser_class(opacus, noise * self.clip, setting.rng)(
            optimiser,
            noise_multiplier=noise,
            max_grad_norm=room * self.clip,
            expected_batch_size=recipe.batch_size,
        )
        return wrapped

    @property
    def covers_top(self) -> bool:
        """Noise at the logits comes before the top."""
        return self.where == "logits"

    def privacy(self, course: Course) -> Privacy:
        """How much privacy the run spends, and of what; or why that is not bounded."""
        secret, observer = {
            "gradient": (Guarded.LABEL, Observer.FEATURE_PARTIES),
            "logits": (Guarded.LABEL, Observer.FEATURE_PARTIES),
            "embedding": (Guarded.RECORD, Observer.OTHERS),
            "parameters": (Guarded.RECORD, Observer.MODELS),
        }[self.where]
        name, reason = f"dp-sgd on {self.where}", self._way_around(course)
        if reason:
            return Privacy(name, secret, observer, None, reason=reason)
        releases, sensitivity, entries = self._released(course)
        noise = self.multiplier(course)
        epsilon = released_epsilon(noise, sensitivity, releases, self.delta, entries)
        return Privacy(name, secret, observer, epsilon, self.delta)

    def _way_around(self, course: Course) -> str:
        """How a secret gets around the noise, if it does."""
        others = [defence for defence in course.defences if defence is not self]
        if self.where in CLEAN:
            return CLEAN[self.where]
        if self.noise == 0:
            return "there is no noise"
        if not course.classes:
            return "targets are scaled by the mean and spread of clean ones"
        if self.where == "parameters":
            if others:
                return f"{others[0].describe()} may mix rows, which then cannot be clipped one by one"
            return "" if course.plain_cut else "the cut trains a layer of its own, without noise"
        around = [defence.describe() for defence in others if defence.label_path]
        return f"{around[0]} gives labels another way" if around else ""

    def _released(self, course: Course) -> tuple[int, float, int | None]:
        """How often a secret is released, by how much it moves a release over `clip`, and how many numbers of it.

        Another label moves the gradient at the logits by no more than sqrt(2), before clipping and so after, unless a
        defence changes that gradient first; two clipped rows are never further apart than twice the clip. All feature
        parties get what is computed from that one release. A sum of parameters' gradients loses one record's, at every
        party.
        """
        if self.where == "parameters":
            return course.epochs * (course.feature_parties + 1), 1.0, None
        before = course.defences[: next((at for at, d in enumerate(course.defences) if d is self), 0)]
        sensitivity = 2.0 if changes(before, "protect") else min(2.0, sqrt(2) / self.clip)
        return course.epochs, sensitivity, course.classes


def _opacus() -> Any:
    """Import Opacus when it is first used, or say how to install it."""
    try:
        import opacus
        import opacus.grad_sample
        import opacus.optimizers
    except ImportError as error:
        raise ConfigError(
            "dp-sgd on parameters needs the module 'opacus', which is not installed: pip install 'cutlayer[dp]'."
        ) from error
    return opacus


def _optimiser_class(opacus: Any, std: float, rng: Draws) -> Any:
    """Opacus' optimiser with discrete noise from a party's own draws: its own is torch's, in floating point."""

    def add_noise(self: Any) -> None:
        for parameter in self.params:
            parameter.grad = blurred(parameter.summed_grad, std, rng).view_as(parameter)

    return type("Optimiser", (opacus.optimizers.DPOptimizer,), {"add_noise": add_noise})


def _without_hooks(self: Any, memo: dict[int, Any]) -> Any:
    """A copy of a model, such as an attacker gets, computes no gradients per row."""
    copy = object.__new__(type(self))
    copy.hooks_enabled = False
    return copy
