"""Divergence: whether training ended far worse than knowing nothing, in a sentence."""

from collections.abc import Sequence
from math import log

FAR = 10.0  # times what knowing nothing costs; every setup of an audit that learns stays below 4


def divergence(losses: Sequence[float], classes: int) -> str | None:
    """Say from which epoch on the training loss stayed far above that of knowing nothing, if the last one is.

    Knowing nothing costs log(classes); for a regression (no classes) 1, the variance of its standardised target. A
    loss that was high and came down again is no divergence.
    """
    nothing = log(classes) if classes else 1.0
    learnt = [epoch for epoch, loss in enumerate(losses) if not loss > FAR * nothing]
    start = learnt[-1] + 1 if learnt else 0
    if start >= len(losses):
        return None
    return (
        f"Training diverged from epoch {start} on: the loss rose to {max(losses[start:]):.2g}, where knowing nothing "
        f"costs {nothing:.2g}; an attack that fails on this model says nothing about protection."
    )
