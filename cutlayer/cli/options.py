"""The options that describe a training, the same for every verb that trains. Their defaults are those of Settings."""

from pathlib import Path
from typing import Annotated, Any

from typer import Option

MODEL, RECIPE = "Model", "Training"

FromFile = Annotated[
    Path | None,
    Option(
        "--settings",
        help="Take models and training from a run folder, a study file or a party's file; other options override it.",
        rich_help_panel=RECIPE,
    ),
]
Bottom = Annotated[
    list[str] | None,
    Option(help="Bottom model: mlp:hidden=64-32, lenet; NAME=MODEL for one party. Repeat it.", rich_help_panel=MODEL),
]
Top = Annotated[str | None, Option(help="Top model: mlp:hidden=16, relu-mlp, none.", rich_help_panel=MODEL)]
Width = Annotated[int | None, Option(help="Numbers in an embedding (16).", rich_help_panel=MODEL)]
Cut = Annotated[str | None, Option(help="concat (default), sum, secure-sum or encrypted-layer.", rich_help_panel=MODEL)]
Epochs = Annotated[int | None, Option(help="Passes over the training rows (30).", rich_help_panel=RECIPE)]
BatchSize = Annotated[int | None, Option(help="Rows in a mini-batch (128).", rich_help_panel=RECIPE)]
Optimiser = Annotated[str | None, Option(help="adam (default), sgd or adadelta.", rich_help_panel=RECIPE)]
Rate = Annotated[float | None, Option(help="Learning rate (0.002).", rich_help_panel=RECIPE)]
Momentum = Annotated[float | None, Option(help="Of sgd (0.9).", rich_help_panel=RECIPE)]
WeightDecay = Annotated[float | None, Option(help="L2 penalty (0).", rich_help_panel=RECIPE)]
Schedule = Annotated[
    str | None,
    Option(help="constant (default), steps:every=10, milestones:at=30-60, cosine.", rich_help_panel=RECIPE),
]
Patience = Annotated[
    int | None,
    Option(help="Stop after so many epochs without a better validation loss; needs --valid.", rich_help_panel=RECIPE),
]
Clip = Annotated[
    float | None, Option(help="Largest norm of a party's own gradient; any by default.", rich_help_panel=RECIPE)
]
Valid = Annotated[
    float | None, Option(help="Share of training rows held out for validation (0).", rich_help_panel=RECIPE)
]


def words_from(file: Path | None, bottom: list[str] | None, **words: Any) -> dict[str, Any]:
    """The words of Settings that were given: those of a file, and over them those of options."""
    from cutlayer.settings import read_bottoms, read_settings

    given = read_settings(file) if file is not None else {}
    given |= read_bottoms(bottom) if bottom else {}
    return given | {key: value for key, value in words.items() if value is not None}
