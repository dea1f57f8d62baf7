"""Ridge: a linear map from what was seen to what is wanted, learned from few rows, chosen on held-out ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

WEIGHTS = tuple(10.0**power for power in range(-9, 3))  # relative to the mean squared length of a row
HELD_OUT = 5  # one known row in so many is held out


@dataclass(frozen=True)
class Ridge:
    """A map in standardised inputs. It is fitted in the rows' space, so inputs may be wider than rows are many."""

    middle: Tensor
    spread: Tensor
    weights: Tensor
    mean: Tensor

    @classmethod
    def fit(cls, inputs: Tensor, values: Tensor, weight: float) -> "Ridge":
        """Least squares with a penalty on the weights; without inputs, the mean."""
        middle, mean = inputs.mean(dim=0), values.mean(dim=0)
        spread = (inputs - middle).pow(2).mean(dim=0).sqrt()
        spread = spread.where(spread > 1e-12, 1.0)
        scaled = (inputs - middle) / spread
        if not inputs.shape[1]:
            return cls(middle, spread, inputs.new_zeros(0, values.shape[1]), mean)
        gram = scaled @ scaled.T
        gram.diagonal().add_(weight * float(gram.diagonal().mean().clamp(min=1e-30)))
        return cls(middle, spread, scaled.T @ torch.linalg.solve(gram, values - mean), mean)

    def __call__(self, inputs: Tensor) -> Tensor:
        """What the map says."""
        return (inputs - self.middle) / self.spread @ self.weights + self.mean


def best_ridge(choices: Sequence[Tensor], values: Tensor, order: Tensor) -> tuple[int, Ridge]:
    """Which inputs, by their place among the choices, and the map from them: the lowest error on held-out rows.

    The map is then learned again from all rows. Of equal choices the first wins.
    """
    held, used = order[: max(1, len(order) // HELD_OUT)], order[max(1, len(order) // HELD_OUT) :]
    errors = {}
    for place, inputs in enumerate(choices):
        for weight in WEIGHTS:
            guess = Ridge.fit(inputs[used], values[used], weight)(inputs[held])
            errors[place, weight] = float((guess - values[held]).pow(2).mean())
    place, weight = min(errors, key=lambda choice: errors[choice])
    return place, Ridge.fit(choices[place], values, weight)
