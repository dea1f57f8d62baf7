"""The options that describe a training, the same for every verb that trains. Their defaults are those of Settings."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

from typer import Option

MODEL, RECIPE = "Model", "Training"


def _model(kind: object, help: str) -> object:
    return Annotated[kind, Option(help=help, rich_help_panel=MODEL)]


def _recipe(kind: object, help: str) -> object:
    return Annotated[kind, Option(help=help, rich_help_panel=RECIPE)]


OPTIONS = {
    "bottom": _model(list[str] | None, "Bottom model: mlp:hidden=64-32, lenet; NAME=MODEL for one party. Repeat it."),
    "top": _model(str | None, "Top model: mlp:hidden=16, relu-mlp, none."),
    "width": _model(int | None, "Numbers in an embedding (16)."),
    "cut": _model(str | None, "concat (default), sum, secure-sum or encrypted-layer."),
    "settings": _recipe(
        Path | None,
        "Take models and training from a run folder, a study file or a party's file; other options override it.",
    ),
    "epochs": _recipe(int | None, "Passes over the training rows (30)."),
    "batch_size": _recipe(int | None, "Rows in a mini-batch (128)."),
    "optimiser": _recipe(str | None, "adam (default), sgd or adadelta."),
    "lr": _recipe(float | None, "Learning rate (0.002)."),
    "momentum": _recipe(float | None, "Of sgd (0.9)."),
    "weight_decay": _recipe(float | None, "L2 penalty (0)."),
    "schedule": _recipe(str | None, "constant (default), steps:every=10, milestones:at=30-60, cosine."),
    "patience": _recipe(int | None, "Stop after so many epochs without a better validation loss; needs --valid."),
    "clip": _recipe(float | None, "Largest norm of a party's own gradient; any by default."),
}
Valid = Annotated[
    float | None, Option(help="Share of training rows held out for validation (0).", rich_help_panel=RECIPE)
]

Words = dict[str, object]  # of Settings, by name; read and checked there
NONE: Words = {}  # stands in a verb's signature where the options go


def describe_training(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb these options in place of its argument `words`: a dictionary of those that were given.

    Typer reads options off a function's signature, so the signature is put together here.
    """

    @wraps(verb)
    def call(**given: Any) -> None:
        words = words_from(**{name: given.pop(name) for name in OPTIONS})
        verb(**given, words=words)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.name == "words":
            parameters += [
                parameter.replace(name=name, annotation=kind, default=None) for name, kind in OPTIONS.items()
            ]
        else:
            parameters.append(parameter)
    vars(call)["__signature__"] = inspect.Signature(parameters)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def words_from(settings: Path | None = None, bottom: list[str] | None = None, **words: object) -> Words:
    """The words of Settings that were given: those of a file, and over them those of options."""
    from cutlayer.settings import read_bottoms, read_settings

    given = dict(read_settings(settings)) if settings is not None else {}
    given |= read_bottoms(bottom) if bottom else {}
    return given | {key: value for key, value in words.items() if value is not None}
