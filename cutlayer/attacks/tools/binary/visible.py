"""Visible: which messages a search for binary columns reads, and how many columns are behind them.

Specification: binary-reconstruction, sections 1 and 6; binary-search, section 7; sfa, section 4.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from math import prod
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from cutlayer.attacks.tools.binary.enumeration import Bits
from cutlayer.attacks.tools.binary.rounding import rounding_of
from cutlayer.attacks.tools.binary.span import CHUNK, Floats, Span, checked, span_of
from cutlayer.attacks.tools.reading import latest, predicted
from cutlayer.errors import Inapplicable, RunError
from cutlayer.message import Kind, Phase
from cutlayer.transcript import Channel
from cutlayer.view import View

Visible = Literal["each", "sum", "all"]
OWN = 1e-6  # of its length: a vector that is nearer to the span of our own columns is ours


def messages(view: View, visible: Visible) -> tuple[Tensor, Floats, Floats | None]:
    """Rows, their messages, and the attacker's own columns where these are part of the messages.

    "each": what the victim sent. "sum": what all feature parties sent, added up, as under secure
    aggregation. "all": the attacker's own part is in the sum too, under weights that it is not
    supposed to know (it sees the sum alone); see `with_own`.

    Where a secure cut opened sums to the attacker, these are all that it can read, whatever is asked for,
    and what it put into them itself, under the mask's weights, stands beside them.
    """
    if (opened := opened_to(view)) is not None:
        rows, sums = latest(*opened.read()[:2], _wanted(view))
        if not len(rows):
            raise RunError("Expected opened sums of these training or test rows, found none; predict on them first.")
        put = entered(view, rows)
        return rows, checked(sums.flatten(1)), None if put is None else checked(put)
    if visible == "each":
        rows, sent = predicted(view, view.victim, _wanted(view))
        return rows, checked(sent.flatten(1)), None
    rows = _wanted(view)
    parties = view.manifest.roster.feature_parties
    for party in parties:
        rows, _ = predicted(view, party, rows)
    parts = [predicted(view, party, rows)[1].flatten(1) for party in parties]
    own = _own_columns(view, rows) if visible == "all" else None
    if own is not None:
        parts.append(_own_part(view, own))
    if len({part.shape for part in parts}) > 1:
        raise Inapplicable("sums need equal widths")
    total = checked(torch.stack(parts).sum(dim=0))
    return rows, total, None if own is None else checked(own.flatten(1))


def columns(view: View, visible: Visible) -> int:
    """How many columns are behind the messages: the parties know each other's numbers of columns."""
    opened = opened_to(view) is not None
    parties = [view.victim] if visible == "each" and not opened else view.manifest.roster.feature_parties
    if any(party not in view.hints.shapes for party in parties):
        raise Inapplicable("dense-only")
    held = sum(prod(view.hints.shapes[party]) for party in parties)
    return held + (_entering(view) if opened else _own_width(view) if visible == "all" else 0)


def known_span(view: View, visible: Visible, matrix: Floats, *, centred: bool, rank: int | None) -> Span:
    """The span of the messages, of no more directions than there are columns behind them.

    Where noise has filled it these are the strongest. Where columns of large numbers make a cliff of their own in the
    singular values, the rank is raised to all that stands above the rounding; a column that is a sum of others does
    not, and adds nothing.
    """
    span = span_of(matrix, centred=centred, rank=rank)
    behind = columns(view, visible)
    if rank is not None:
        return span
    if span.rank > behind + (not centred):  # one more where a bias adds the all-ones vector
        return replace(span, basis=span.basis[:, :behind])
    if span.rank < behind:
        rounding = rounding_of(matrix)
        if rounding.span is not None and span.rank < (above := min(rounding.rank, behind)):
            return span_of(matrix, centred=centred, rank=above)
    return span


def with_own(matrix: Floats, own: Floats | None, behind: int | None = None) -> Floats:
    """Messages with the attacker's columns beside them, at the same size.

    The sum spans mixtures of its columns and the others'; its own must be appended, for to project
    them out would leave others' columns with more than two values. A sum that is wider than the number of
    columns `behind` it spans them all as it is. Then nothing is appended: columns without noise, beside sums
    with it, would pass for exact messages that hold no two-valued column.
    """
    if own is None or (behind is not None and matrix.shape[1] > behind):
        return matrix
    size = np.linalg.norm(matrix) / max(float(np.linalg.norm(own)), np.finfo(float).tiny)
    return np.column_stack([matrix, own * size])


def not_own(bits: Bits, own: Floats | None) -> Bits:
    """The columns that do not follow from the attacker's own columns and the all-ones vector alone."""
    if own is None or not bits.size:
        return bits
    known = np.column_stack([np.ones(len(own)), own])
    vectors = bits.astype(np.float64)
    rest = vectors - known @ np.linalg.lstsq(known, vectors)[0]
    return bits[:, (rest**2).sum(axis=0) > OWN * (vectors**2).sum(axis=0)]


def opened_to(view: View) -> Channel | None:
    """The sums that a secure cut opened to the attacker in prediction, if it did."""
    return next((c for c in view.channels if c.kind is Kind.SUM and c.phase is Phase.PREDICT and len(c)), None)


@torch.no_grad()
def entered(view: View, rows: Tensor) -> Tensor | None:
    """What the attacker multiplied by the mask's weights: its columns, or what its earlier layers make of them.

    Rounded as the cut rounds it: where a sum is no wider than need be, rounding is what hides its last directions.
    """
    own = view.own[view.attacker]
    if own.features is None or own.bottom is None:
        return None
    if _entering(view) >= len(rows):
        raise Inapplicable("no fewer columns of the attacker's own than rows")
    bottom = deepcopy(own.bottom)
    device = next(bottom.parameters(), torch.empty(0)).device
    parts = []
    for part in rows.split(CHUNK):
        inputs = own.features.index_select(0, part)
        bottom(inputs.to(device))
        parts.append(getattr(bottom, "entered", inputs).to_dense().cpu())
    put = torch.cat(parts).flatten(1)
    rounded: Callable[[Tensor], Tensor] | None = getattr(view.manifest.cut, "entering", None)
    return put if rounded is None else rounded(put)


def _wanted(view: View) -> Tensor:
    return torch.cat([view.manifest.train, view.manifest.test])


def _own_columns(view: View, rows: Tensor) -> Tensor:
    features = view.own[view.attacker].features
    if features is None or view.own[view.attacker].bottom is None:
        raise Inapplicable("the attacker has no columns of its own")
    return features.index_select(0, rows).to_dense()


def _own_width(view: View) -> int:
    features = view.own[view.attacker].features
    return 0 if features is None else prod(features.shape[1:])


def _entering(view: View) -> int:
    """Width of what the attacker multiplied by the mask's weights."""
    width = _own_width(view)
    return int(getattr(view.own[view.attacker].bottom, "inputs", width)) if width else 0


@torch.no_grad()
def _own_part(view: View, own: Tensor) -> Tensor:
    bottom = view.own[view.attacker].bottom
    assert isinstance(bottom, nn.Module)
    device = next(bottom.parameters(), own).device
    return torch.cat([bottom(part.to(device)).flatten(1).cpu() for part in own.split(CHUNK)])
