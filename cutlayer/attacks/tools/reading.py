"""Reading: what a view says about one party: the last message for each row, and the party's model where it is known."""

import copy

import torch
from torch import Tensor, nn

from cutlayer.errors import ConfigError, Inapplicable, RunError
from cutlayer.message import Kind, Phase
from cutlayer.rng import Stream
from cutlayer.view import View


def latest(rows: Tensor, values: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The wanted rows that occur among `rows`, and the last value of each."""
    ordered, order = rows.sort(stable=True)
    present = wanted[torch.isin(wanted, rows)]
    return present, values[order[torch.searchsorted(ordered, present, right=True) - 1]]


def predicted(view: View, party: str, wanted: Tensor, *, masked: bool = False) -> tuple[Tensor, Tensor]:
    """The wanted rows for which a party sent an embedding in prediction, and the last embedding of each.

    Masked embeddings, residues of a ring, are refused unless the attack can use them (`masked`).
    """
    embedded = any(c.kind is Kind.EMBEDDING and c.phase is Phase.PREDICT and len(c) for c in view.channels)
    if not embedded and any(c.kind is Kind.CIPHER for c in view.channels):
        raise Inapplicable("embeddings cross encrypted")
    rows, embeddings, _ = view.channel(Kind.EMBEDDING, Phase.PREDICT, peer=party).read()
    if not (masked or embeddings.is_floating_point()):
        raise Inapplicable("embeddings cross under masks")
    present, values = latest(rows, embeddings, wanted.cpu())
    if not len(present):
        raise RunError("Expected embeddings of these training or test rows, found none; predict on them first.")
    return present, values


def is_code(values: Tensor) -> bool:
    """Whether all values that crossed are +1 or -1."""
    return bool((values.abs() == 1).all())


def white_box(view: View) -> tuple[nn.Module, tuple[int, ...]]:
    """A frozen copy of the victim's bottom, and the shape of one of the victim's rows."""
    if view.victim not in view.hints.bottoms:
        raise ConfigError(f"Expected the bottom model of {view.victim!r} as a hint; this attack needs it.")
    if view.victim not in view.hints.shapes:
        raise Inapplicable("dense-only")
    bottom = copy.deepcopy(view.hints.bottoms[view.victim]).eval().requires_grad_(False)
    shape = tuple(view.hints.shapes[view.victim])
    parameter = next(bottom.parameters(), torch.empty(0))
    try:
        with torch.no_grad(), Stream(0, "white box", device=parameter.device).scope():  # it may draw numbers of its own
            bottom(torch.zeros(1, *shape, device=parameter.device))
    except (AttributeError, IndexError, RuntimeError, TypeError) as error:
        raise Inapplicable("dense-only") from error
    return bottom, shape
