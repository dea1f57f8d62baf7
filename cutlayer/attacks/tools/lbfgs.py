"""L-BFGS for many small problems at once, each with a line search of its own."""

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

DESCENT, CURVATURE = 1e-4, 0.9  # Wolfe's conditions: how far a value must fall, how much of a slope may be left
TRIES = 25  # of a line search, before its problem forgets its past, and then rests
FLAT = 1e-10  # cosine between a step and a change of the gradient: below it, the pair says nothing

Function = Callable[[Tensor], Tensor]
Pair = tuple[Tensor, Tensor, Tensor]  # a step, the change of the gradient, and one over their product (0: masked)


def minimise(function: Function, start: Tensor, *, steps: int, history: int = 50) -> tuple[Tensor, Tensor]:
    """The best point that was seen of each problem, and its value: `function` maps B x D to B.

    Written here because torch's and scipy's take one problem at a time: their line search would tie all together.
    `function` is called 5/4 times for a step, as torch's does at most. Each time every problem is at a try of its own:
    one that satisfies the weak Wolfe conditions is taken, and the next direction comes from those taken in the last
    `history` calls; else the step is bracketed. What is no number is a failed try. A problem that finds no way down,
    not even along its gradient, rests.
    """
    x = best = start.detach()
    value, slope = _evaluate(function, x)
    least, awake, steepest = value, value.isfinite(), torch.ones_like(value, dtype=torch.bool)
    step, tries, low, high = torch.ones_like(value), torch.zeros_like(value), torch.zeros_like(value), value + torch.inf
    scale = 1 / slope.abs().sum(dim=1).clamp(min=1)
    way = -scale[:, None] * slope
    pairs: deque[Pair] = deque(maxlen=history)
    for _ in range(steps * 5 // 4):
        fall = _dot(slope, way)
        awake = awake & (fall < 0)
        if not awake.any():
            break
        trial = torch.where(awake[:, None], x + step[:, None] * way, x)
        reached, gradient = _evaluate(function, trial)
        best, least = torch.where((reached < least)[:, None], trial, best), reached.minimum(least)
        tries = tries + 1
        lower, last = reached <= value + DESCENT * step * fall, tries >= TRIES
        taken = awake & lower & (last | (_dot(gradient, way) >= CURVATURE * fall))
        failed = awake & ~lower & last
        if failed.any():
            pairs = deque(((s, y, rho.where(~failed, 0.0)) for s, y, rho in pairs), maxlen=history)
        s, y = (torch.where(taken[:, None], new - old, 0.0) for new, old in ((trial, x), (gradient, slope)))
        product = _dot(s, y)
        kept = product > FLAT * s.norm(dim=1) * y.norm(dim=1)
        pairs.append((s, y, torch.where(kept, 1 / product, 0.0)))
        scale = torch.where(kept, product / _dot(y, y), scale)
        awake, steepest = awake & ~(failed & steepest), (steepest & ~kept) | failed
        low, high = torch.where(lower, step, low), torch.where(lower, high, step)
        parabola = -fall * step.square() / (2 * (reached - value - fall * step))  # its lowest point, from the origin
        inside = torch.where(low > 0, (low + high) / 2, parabola.clamp(0.1 * high, 0.5 * high))
        step = torch.where(high.isinf(), 2 * step, inside)
        x, slope = torch.where(taken[:, None], trial, x), torch.where(taken[:, None], gradient, slope)
        value, anew = torch.where(taken, reached, value), taken | failed
        step, tries = step.where(~anew, 1.0), tries.where(~anew, 0.0)
        low, high = low.where(~anew, 0.0), high.where(~anew, torch.inf)
        way = torch.where(anew[:, None], -_towards(pairs, scale, slope), way)
        way = torch.where((_dot(slope, way) < 0)[:, None], way, -scale[:, None] * slope)  # rounding may turn it up
    return best, least


def _evaluate(function: Function, x: Tensor) -> tuple[Tensor, Tensor]:
    """Values, infinite where they or their gradients are no numbers, and gradients."""
    with torch.enable_grad():
        value = function(x := x.detach().requires_grad_())
        (slope,) = torch.autograd.grad(value.sum(), x)
    finite = value.isfinite() & slope.isfinite().all(dim=1)
    return value.detach().where(finite, torch.inf), slope.where(finite[:, None], 0.0)


def _towards(pairs: deque[Pair], scale: Tensor, slope: Tensor) -> Tensor:
    """The gradient times the inverse Hessian that the pairs tell of: the two-loop recursion."""
    parts: list[Tensor] = []
    for s, y, rho in reversed(pairs):
        parts.append(rho * _dot(s, slope))
        slope = slope - parts[-1][:, None] * y
    slope = scale[:, None] * slope
    for (s, y, rho), part in zip(pairs, reversed(parts), strict=True):
        slope = slope + (part - rho * _dot(y, slope))[:, None] * s
    return slope


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=1)
