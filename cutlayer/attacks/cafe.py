"""CAFE: read rows off the gradients of a bottom's weights, layer by layer from the cut, and search for the rest."""

import copy
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from cutlayer._validate import at_least, non_negative, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.inversion import descend, is_image, near_zero, total_variation
from cutlayer.attacks.tools.reading import white_box
from cutlayer.cut import Cut
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, Inapplicable, RunError
from cutlayer.message import Kind
from cutlayer.rng import Stream
from cutlayer.view import Moment, View

ALIVE = 1e-4  # of the largest number behind a ReLU: below it a unit is taken to be off
EXACT = 1e-5  # of the largest singular value: what is below it is rounding

Layers = list[tuple[str, nn.Module]]


class Cafe(Attack):
    """Read rows off the gradients of the victim's weights, layer by layer, and search for the rest.

    The gradient of a linear layer's weights is V^T U, for its inputs U and for V, each row's gradient at its outputs.
    Where the bottom ends in such a layer, the label party sent V itself (the paper's server does not see the cut and
    has to fit it). Least squares then give U exactly if the rows of V are independent, as in batches no larger than
    the embedding is wide. Through a ReLU, U says which units were on, and so V of the layer before. A bottom of
    linear layers and ReLUs gives up its inputs in closed form.

    Where a convolution stops this, or a batch is too large, rows are searched for. Each minimises mean((u(x) -
    U)^2) / mean(U^2) + tv * TV(x) + l2 * mean(x^2), for the last known U (or the messages), and all together `match`
    times the relative squared error of all parameters' gradients: `steps` steps of Adam at `lr`, with weights `tv`
    and `l2`. Batch norm uses the batch, as in training.
    Before convolutions this is weak: with U exact, LeNet's first step on MNIST gave no better than the mean row.

    Sees: the embeddings and gradients of the first `batches` training steps (--keep ends or all).
    Needs: the victim's weights and their gradients in those steps, which do not cross our cut; dense inputs.
    Specification: baselines, section 4.
    Paper: Jin et al., CAFE: Catastrophic Data Leakage in Vertical Federated Learning (arXiv:2110.15122); theirs fits V,
    U and x by turns, over 20,000 steps of a model that hardly moves.
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY
    settings: ClassVar[tuple[str, ...]] = ("batches=2,steps=200", "")

    def __init__(
        self,
        *,
        batches: int = 4,
        steps: int = 500,
        lr: float = 0.05,
        tv: float = 0.01,
        l2: float = 0.01,
        match: float = 1.0,
    ) -> None:
        at_least("batches", batches, 1)
        at_least("steps", steps, 1)
        positive("lr", lr)
        for name, weight in (("tv", tv), ("l2", l2), ("match", match)):
            non_negative(name, weight)
        self.batches = batches
        self.steps = steps
        self.lr = lr
        self.tv = tv
        self.l2 = l2
        self.match = match

    @property
    def asks(self) -> Asks:
        """Weights and gradients of some steps."""
        return Asks(course=self.batches)

    def run(self, view: View, rng: Generator) -> Guess:
        """Read batch after batch."""
        course = view.hints.course.get(view.victim)
        if not course:
            raise ConfigError(f"Expected the training steps of {view.victim!r} as a hint; this attack needs them.")
        if type(view.manifest.cut).gather is not Cut.gather:
            raise Inapplicable("plain cuts only")
        sent, back = (view.channel(kind, peer=view.victim).messages() for kind in (Kind.EMBEDDING, Kind.GRADIENT))
        batches = []
        for moment, embedding, gradient in zip(course, sent, back, strict=False):
            if not torch.equal(moment.rows, gradient.batch.rows):
                raise RunError("Expected the messages of the first training steps; train with --keep ends or all.")
            hints = replace(view.hints, bottoms={view.victim: moment.bottom})
            with Stream(int(torch.randint(2**62, (), generator=rng)), "cafe").scope():  # a bottom may draw numbers
                _, shape = white_box(replace(view, hints=hints))
                batches.append(self._read(moment, shape, embedding.payload, gradient.payload, rng))
        return Guess(torch.cat([moment.rows for moment in course]), torch.cat(batches), Form.VALUES)

    def _read(self, moment: Moment, shape: tuple[int, ...], sent: Tensor, back: Tensor, rng: Generator) -> Tensor:
        """The rows of one batch."""
        bottom = copy.deepcopy(moment.bottom).eval()
        for layer in bottom.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                layer.train()
        layers, whole = peeled(bottom, shape)
        place, values = taken_off(layers, moment, sent.flatten(1).double(), back.flatten(1).double())
        if whole and place == layers[-1][0]:
            return values.view(len(values), *shape).float()
        return self._search(bottom, place, moment, values.float(), back, shape, rng)

    def _search(
        self,
        bottom: nn.Module,
        place: str | None,
        moment: Moment,
        values: Tensor,
        back: Tensor,
        shape: tuple[int, ...],
        rng: Generator,
    ) -> Tensor:
        """Rows that enter a layer (None: leave the bottom) as these values, and whose gradients are the moment's."""
        passed: list[Tensor] = []
        if place is not None:
            bottom.get_submodule(place).register_forward_pre_hook(lambda _, inputs: passed.append(inputs[0]))
        weights = [p for key, p in bottom.named_parameters() if key in moment.gradients]
        slopes = [moment.gradients[key] for key, _ in bottom.named_parameters() if key in moment.gradients]
        size, length = values.pow(2).mean(), sum(slope.pow(2).sum() for slope in slopes)

        @torch.enable_grad()
        def objective(x: Tensor) -> Tensor:
            output = bottom(x)
            value = ((output if place is None else passed.pop()).flatten(1) - values).pow(2).mean(dim=1) / size.where(
                size > 0, 1.0
            )
            value = value + self.l2 * x.pow(2).flatten(1).mean(dim=1)
            if is_image(shape):
                value = value + self.tv * total_variation(x)
            if self.match and length > 0:
                gradients = torch.autograd.grad(output, weights, back.view_as(output).to(output), create_graph=True)
                value = (
                    value
                    + self.match * sum((a - b).pow(2).sum() for a, b in zip(gradients, slopes, strict=True)) / length
                )
            return value

        (start,) = near_zero((1, len(values), *shape), rng)
        box = (0.0, 1.0) if is_image(shape) else None
        return descend(objective, start, steps=self.steps, lr=self.lr, eps=1e-3, box=box)[0]


def _linear(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Linear)


def peeled(bottom: nn.Module, shape: tuple[int, ...]) -> tuple[Layers, bool]:
    """The layers that can be taken off a bottom, from the cut inwards to a linear one; whether nothing is left then."""
    calls: list[tuple[str, nn.Module, Tensor, Tensor]] = []
    handles = [
        layer.register_forward_hook(
            lambda module, given, output, name=name: calls.append((name, module, given[0], output))
        )
        for name, layer in bottom.named_modules()
        if not list(layer.children())
    ]
    probe = torch.zeros(2, *shape)
    with torch.no_grad():
        reached = bottom(probe)
    for handle in handles:
        handle.remove()
    layers: Layers = []
    for name, layer, given, output in reversed(calls):
        if output is not reached or not isinstance(layer, nn.Linear | nn.ReLU | nn.Flatten | nn.Identity):
            break
        layers.append((name, layer))
        reached = given
    whole = reached is probe
    while layers and not _linear(layers[-1][1]):
        whole &= not isinstance(layers.pop()[1], nn.ReLU)
    return layers, whole


def taken_off(layers: Layers, moment: Moment, values: Tensor, slopes: Tensor) -> tuple[str | None, Tensor]:
    """The innermost linear layer (None: none) whose inputs the gradients tell, and these; else the values as given."""
    place = None
    for name, layer in layers:
        if isinstance(layer, nn.Linear):
            inputs = inputs_of(slopes, moment.gradients.get(f"{name}.weight"))
            if inputs is None:
                break
            place, values, slopes = name, inputs, slopes @ layer.weight.detach().double()
        elif isinstance(layer, nn.ReLU):
            slopes = slopes * (values > ALIVE * values.abs().max())
    return place, values


def inputs_of(slopes: Tensor, gradient: Tensor | None) -> Tensor | None:
    """U with V^T U = gradient, for V the slopes; None if there are many."""
    length = slopes.norm(dim=1, keepdim=True)
    even = (slopes / length.where(length > 0, 1.0)).T  # or rows of short gradients would pass for rounding
    if gradient is None or torch.linalg.matrix_rank(even, rtol=EXACT) < len(slopes):
        return None
    inputs: Tensor = torch.linalg.pinv(even) @ gradient.double() / length
    return inputs
