"""The verbs of the command line and their options, for the reference page that generate.py writes."""

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from cutlayer.cli import app

LEFT_OUT = ("--help",)


def verbs() -> Iterator[tuple[str, str, str, list[str]]]:
    """Of every verb: the panel of `cutlayer --help` it stands in, its name, what it does, and its options."""
    root: Any = typer.main.get_command(app)  # Typer brings its own copy of click, which has no types
    for name, command in root.commands.items():
        for verb, inner in getattr(command, "commands", {"": command}).items():
            yield command.rich_help_panel, f"{name} {verb}".strip(), about(inner), list(options(inner))


def about(command: Any) -> str:
    """What a verb does, with its examples."""
    text = inspect.cleandoc(command.help or "")
    prose, _, examples = text.partition("\b\n")
    lines = "\n".join(f"$ {line}" for line in examples.splitlines() if line.strip())
    return f"{prose.strip()}\n\n```console\n{lines}\n```" if lines else prose.strip()


def options(command: Any) -> Iterator[str]:
    """An item for every argument and option: how it is written, what it means, its default."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            written = parameter.make_metavar(typer.Context(command))
        elif parameter.opts[0] in LEFT_OUT:
            continue
        else:
            metavar = "" if parameter.is_flag else f" {parameter.metavar or parameter.type.name.upper()}"
            written = f"{max(parameter.opts, key=len)}{metavar}"
        default = parameter.default
        text = (parameter.help or "").strip()
        if default not in (None, False, "", ()) and not callable(default):
            text = f"{text.removesuffix('.')} (`{default}`)."
        yield f"`{written}`: {text}"
