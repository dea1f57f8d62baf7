"""Server: hands out weights, takes in answers, refuses what cannot be one, and averages the rest."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class ClientAnswer(NamedTuple):
    """What a client sends after a round: its weights, or the gradient of them; and how many rows it trained on."""

    payload: Tensor
    rows: int


class Server:
    """Holds the shared weights. Answers are weights or, where it has a `rate` for each round, gradients that it steps
    along.

    `weighted`: clients count by their rows (McMahan et al., FedAvg), otherwise equally (FedAdOb's Algorithm 2).
    """

    def __init__(self, weights: Tensor, *, weighted: bool = True, rate: Callable[[int], float] | None = None) -> None:
        self.weights = weights
        self.weighted = weighted
        self.rate = rate

    def refusal(self, answer: ClientAnswer) -> str | None:
        """Why an answer cannot be used, or None. It comes from outside: nothing about it is taken for granted."""
        payload = answer.payload
        if payload.shape != self.weights.shape:
            return f"expected {len(self.weights)} numbers, got a shape of {tuple(payload.shape)}"
        if not payload.is_floating_point() or not bool(torch.isfinite(payload).all()):
            return "expected finite numbers, got others"
        return None if answer.rows > 0 else f"expected at least one row behind it, got {answer.rows}"

    def merge(self, answers: Mapping[str, ClientAnswer], turn: int) -> dict[str, str]:
        """Average the answers that can be used; why the others were refused, by client. Without any, weights stay."""
        refused = {name: why for name, answer in answers.items() if (why := self.refusal(answer))}
        taken = [answer for name, answer in answers.items() if name not in refused]
        if taken:
            payloads = [answer.payload.to(self.weights.device) for answer in taken]
            mean = average(payloads, [answer.rows if self.weighted else 1 for answer in taken])
            self.weights = mean if self.rate is None else self.weights - self.rate(turn) * mean
        return refused


def average(vectors: list[Tensor], counts: list[int]) -> Tensor:
    """The weighted mean of vectors, summed as differences from the first: equal vectors give exactly that vector."""
    total, first = sum(counts), vectors[0]
    away = torch.zeros_like(first, dtype=torch.float64)
    for vector, count in zip(vectors, counts, strict=True):
        away += (vector.double() - first.double()) * (count / total)
    return (first.double() + away).to(first.dtype)
