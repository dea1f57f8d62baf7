"""Inversion: search by gradient descent for the inputs that a model turns into given outputs."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, Tensor, nn

SMALL = 0.1  # spread of random starts
FLAT = 1e-12  # below a square root: the gradient of a flat image is then zero, not undefined
Roughness = Literal["paper", "code"]


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether one row is an image: channels, height, width."""
    return len(shape) == 3


def total_variation(images: Tensor, form: Roughness = "code") -> Tensor:
    """How rough each image is.

    "code": mean squared difference to the next row plus that to the next column. "paper" (HashVFL):
    the sum over pixels of sqrt(down^2 + across^2), channels inside the root; a difference that
    would leave the image is zero.
    """
    down, across = images.diff(dim=-2), images.diff(dim=-1)
    if form == "code":
        parts = [step.pow(2).flatten(1).mean(dim=1) for step in (down, across) if step.numel()]
        return torch.stack(parts).sum(dim=0) if parts else images.new_zeros(len(images))
    below = nn.functional.pad(down.pow(2), (0, 0, 0, 1))
    beside = nn.functional.pad(across.pow(2), (0, 1))
    length: Tensor = ((below + beside).sum(dim=1) + FLAT).sqrt()
    return length.flatten(1).sum(dim=1)


def near_zero(size: tuple[int, ...], rng: Generator, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Random starts (tries x rows x shape) near zero: what a message does not show stays near its start."""
    if is_image(size[2:]):
        return low + SMALL * (high - low) * torch.rand(size, generator=rng)
    return SMALL * torch.randn(size, generator=rng)


def misfit(
    bottom: nn.Module,
    x: Tensor,
    target: Tensor,
    *,
    tv: float,
    l2: float,
    relative: bool = True,
    form: Roughness = "code",
) -> Tensor:
    """mean((f(x) - H)^2) + tv * TV(x) + l2 * mean(x^2), one number per row; `relative`: the first over mean(H^2)."""
    value: Tensor = (bottom(x) - target).pow(2).flatten(1).mean(dim=1)
    if relative:
        size = target.pow(2).mean()
        value = value / size.where(size > 0, 1.0)
    if tv and is_image(x.shape[1:]):
        value = value + tv * total_variation(x, form)
    if l2:
        value = value + l2 * x.pow(2).flatten(1).mean(dim=1)
    return value


def descend(
    objective: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    steps: int,
    lr: float,
    eps: float,
    box: tuple[float, float] | None,
) -> tuple[Tensor, Tensor]:
    """Lower one objective per row by Adam (amsgrad), inside a box if there is one; the ends and their objectives."""
    x = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([x], lr=lr, eps=eps, amsgrad=True)
    for _ in range(steps):
        (x.grad,) = torch.autograd.grad(objective(x).sum(), x)
        optimizer.step()
        if box:
            x.data.clamp_(*box)
    with torch.no_grad():
        return x.detach(), objective(x).nan_to_num(torch.inf)


def invert(
    bottom: nn.Module,
    starts: Tensor,
    target: Tensor,
    *,
    steps: int,
    lr: float,
    tv: float,
    l2: float,
    relative: bool = True,
    box: tuple[float, float] | None = (0.0, 1.0),
) -> Tensor:
    """Search from every start (tries x rows x shape) for what a bottom turns into the target; the best end of each row.

    Images stay inside the box, if there is one.
    """
    tries, count = starts.shape[:2]
    wanted = target.repeat(tries, *[1] * (target.ndim - 1))
    ends, values = descend(
        lambda x: misfit(bottom, x, wanted, tv=tv, l2=l2, relative=relative),
        starts.flatten(0, 1),
        steps=steps,
        lr=lr,
        eps=1e-3,
        box=box if is_image(tuple(starts.shape[2:])) else None,
    )
    best = values.view(tries, count).argmin(dim=0)
    return ends.view(starts.shape)[best, torch.arange(count, device=best.device)]
