"""The label party's view of linear embeddings of binary columns, and what an attack finds in it."""

from dataclasses import replace

import torch
from torch import nn

from cutlayer.attack import Form
from cutlayer.cut import Roster
from cutlayer.cuts.concat import Concat
from cutlayer.message import Kind, Phase
from cutlayer.recipe import Recipe
from cutlayer.transcript import Transcript
from cutlayer.view import Hints, Manifest, Own, View, view_of
from tests.helpers.toy import FEATURE, LABEL, OTHER, record, rng

ROWS = 300


def binary_table(columns: int, binary: int, seed: int) -> torch.Tensor:
    table = torch.rand(ROWS, columns, generator=rng(seed))
    table[:, :binary] = (table[:, :binary] > 0.4).float()
    return table


def linear(columns: int, width: int, seed: int, bias: bool = False) -> nn.Linear:
    layer = nn.Linear(columns, width, bias=bias)
    with torch.no_grad():
        for weights in layer.parameters():
            weights.copy_(torch.randn(weights.shape, generator=rng(seed)))
    return layer


def linear_view(
    widths=(12, 12), activation=None, bias=False, std=0.0, own: bool = True
) -> tuple[View, dict[str, torch.Tensor]]:
    """The label party's view of a prediction pass under first layers cut apart; two, one and one binary columns."""
    features = {FEATURE: binary_table(4, 2, 1), OTHER: binary_table(3, 1, 2), LABEL: binary_table(3, 1, 3)}
    transcript, rows = Transcript(), torch.arange(ROWS)
    for seed, (name, width) in enumerate(zip((FEATURE, OTHER), widths, strict=True)):
        with torch.no_grad():
            sent = linear(features[name].shape[1], width, seed, bias)(features[name])
        sent = sent if activation is None else activation(sent)
        sent = sent + std * torch.randn(sent.shape, generator=rng(9))
        record(transcript, Kind.EMBEDDING, name, rows, sent, phase=Phase.PREDICT)
    held = Own(features[LABEL], linear(3, widths[0], 7)) if own else Own(None, None)
    roster = Roster(LABEL, (FEATURE, OTHER, LABEL) if own else (FEATURE, OTHER))
    manifest = Manifest("toy", roster, 2, rows[40:], rows[:40], Recipe(batch_size=32), Concat())
    view = view_of(transcript, frozenset({LABEL}), manifest, {LABEL: held})
    shapes = {name: tuple(features[name].shape[1:]) for name in (FEATURE, OTHER)}
    return replace(view, hints=Hints(shapes=shapes), victim=FEATURE), features


def columns_found(attack, view) -> set[bytes]:
    """The findings, each a column of bits by row number."""
    guess = attack.run(view, rng())
    assert guess.form is Form.COLUMNS and guess.values.shape[0] == len(guess.rows) == ROWS
    assert guess.values.dtype == torch.bool
    return {bits(column) for column in guess.values[guess.rows.argsort()].T}


def bits(column: torch.Tensor) -> bytes:
    return bytes((column > 0.5).tolist())
