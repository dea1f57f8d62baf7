"""DP-SGD: clip what each row contributes, add Gaussian noise, and count the privacy that is spent."""

import warnings
from collections.abc import Sequence
from math import inf, isclose, sqrt
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from cutlayer._validate import at_least, non_negative, one_of, positive
from cutlayer.blocks.accountant import gaussian_epsilon, gaussian_noise, sampled_epsilon
from cutlayer.defence import Course, Defence, Local, Place, Setting
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.recipe import Recipe
from cutlayer.rng import normal_like

Where = Literal["gradient", "logits", "embedding", "parameters"]
NOISE = 3.3


class DpSgd(Defence):
    """Clip each row to norm `clip` and add N(0, (noise * clip)^2) per entry, in one of four places.

    - `where=gradient`: the gradients that the label party sends. Its own top is updated without noise.
    - `where=logits`: the loss's gradient at the logits, from which top, bottoms and messages all follow.
    - `where=embedding`: the embeddings that a feature party sends, in training and prediction.
    - `where=parameters`: DP-SGD proper, by Opacus (`pip install 'cutlayer[dp]'`): every party clips each
      row's gradient over all its parameters, sums, and adds noise to the sum. Messages stay as they are.

    Gradients are clipped in units of one row's own loss: the factor 1/B of the mean loss is taken out and put
    back. With `epsilon`, `noise` is what `releases` releases of a row need at `delta`.

    Every peer knows who is in a batch, so subsampling hides nothing from it: a row counts once per epoch. run.json
    states that epsilon, and beside it the one with amplification, for outsiders, as if batches were drawn
    at random (they are shuffled).

    Protects: labels and features; the label party with `where=gradient` or `logits`, each feature party with
    `where=embedding`, every party with `where=parameters`.
    Guarantee: (epsilon, delta)-differential privacy as run.json states it. logits: of each label, in all that is
    sent, trained or predicted, unless other defences put labels into the loss. gradient, embedding:
    of one row in its own messages, with the models taken as given (they were trained on clean
    values, so other rows' messages hold a trace). parameters: of one row in the trained models of a party, to
    those who see no messages. Noise is taken as unpredictable, which torch's on a CPU is not to an attacker who knows
    much of it (cutlayer/rng.py).
    Does not hide: what is true of many rows, such as a class's direction in gradients; with parameters,
    anything that messages tell; with embedding, labels; with the others, features.
    Specification: baselines, section 8; vflrecon, sections 5 and 8.
    Paper: Abadi et al., Deep Learning with Differential Privacy (arXiv:1607.00133), as compared by Zhu et al.,
    Table VI, who state neither place, clip nor delta.
    """

    strengths: ClassVar[tuple[str, ...]] = ("noise=1.0", "noise=3.3", "noise=10.0")

    def __init__(
        self,
        *,
        noise: float = NOISE,
        clip: float = 1.0,
        where: Where = "gradient",
        delta: float = 1e-5,
        epsilon: float | None = None,
        releases: int = 1,
    ) -> None:
        non_negative("noise", noise)
        positive("clip", clip)
        one_of("where", where, get_args(Where))
        at_least("releases", releases, 1)
        if not 0 < delta < 1:
            raise ConfigError(f"Expected delta={delta} to lie between 0 and 1.")
        self.clip = clip
        self.where = where
        self.delta = delta
        self.epsilon = epsilon
        self.releases = releases
        self.noise = noise
        if epsilon is not None:
            positive("epsilon", epsilon)
            self.noise = gaussian_noise(epsilon, delta, releases, self.sensitivity(2))
            if noise != NOISE and not isclose(noise, self.noise):
                raise ConfigError(
                    f"Expected noise or epsilon, got noise={noise} and epsilon={epsilon}; drop one of them."
                )

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Clip rows and add fresh noise; the owner back-propagates through clipping as through a constant."""
        if local.place.value != self.where:
            return payload
        batch = 1 if local.place is Place.EMBEDDING else max(len(payload), 1)
        rows = payload.flatten(1) * batch
        length = torch.linalg.vector_norm(rows.detach(), dim=1, keepdim=True)
        rows = rows * (self.clip / length).clamp(max=1.0)  # a zero row: infinity, so 1
        rows = rows + self.noise * self.clip * normal_like(rows, local.rng)
        sent: Tensor = (rows / batch).view_as(payload)
        return sent

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
        wrapped: Optimizer = _optimiser_class(opacus, setting.rng)(
            optimiser,
            noise_multiplier=self.noise,
            max_grad_norm=self.clip,
            expected_batch_size=recipe.batch_size,
        )
        return wrapped

    def sensitivity(self, classes: int) -> float:
        """By how much one row's secret moves a release, over `clip`.

        A message is there for every row and only its content is secret: two of them lie up to twice the clip apart.
        Another label moves the gradient at the logits by no more than sqrt(2), before clipping and so after. A sum
        loses one row's clipped gradient.
        """
        if self.where == "parameters":
            return 1.0
        return min(2.0, sqrt(2) / self.clip) if self.where == "logits" and classes else 2.0

    def spent(self, course: Course) -> tuple[float, float]:
        """Epsilon of one row: for a peer, who knows the batches, and for outsiders, with amplification."""
        times = course.epochs * (course.feature_parties if self.where == "gradient" else 1)
        if not (self.noise and times):
            return (inf, inf) if times else (0.0, 0.0)
        peer = gaussian_epsilon(self.sensitivity(course.classes) * sqrt(times) / self.noise, self.delta)
        steps = course.epochs * -(-course.rows // course.batch_size)
        outside = sampled_epsilon(self.noise, min(1.0, course.batch_size / course.rows), steps, self.delta)
        return peer, min(peer, outside)

    def notes(self, course: Course) -> tuple[str, ...]:
        """Say how much privacy the run spent, and of what."""
        peer, outside = self.spent(course)
        whom = {
            "gradient": "feature parties together (messages of the row itself; the top was trained without noise)",
            "logits": "feature parties (the row's label)",
            "embedding": "the label party (messages of the row itself, in training; each prediction is one more)",
            "parameters": "those who know the batches and see models only; messages are not covered",
        }[self.where]
        return (
            f"dp-sgd on {self.where}: epsilon {peer:.3g} at delta {self.delta:g}, without amplification, for {whom}; "
            f"{outside:.3g} with, for outsiders who do not know the batches",
        )


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


def _optimiser_class(opacus: Any, rng: Draws) -> Any:
    """Opacus' optimiser with noise from a party's own draws: its own comes from torch's generator."""

    def add_noise(self: Any) -> None:
        for parameter in self.params:
            noise = self.noise_multiplier * self.max_grad_norm * normal_like(parameter.summed_grad, rng)
            parameter.grad = (parameter.summed_grad + noise).view_as(parameter)

    return type("Optimiser", (opacus.optimizers.DPOptimizer,), {"add_noise": add_noise})


def _without_hooks(self: Any, memo: dict[int, Any]) -> Any:
    """A copy of a model, such as an attacker gets, computes no gradients per row."""
    copy = object.__new__(type(self))
    copy.hooks_enabled = False
    return copy
