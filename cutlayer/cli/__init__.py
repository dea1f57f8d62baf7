"""The command line. One file per verb; mistakes of the user become one sentence and exit code 2."""

import errno
import re
import sys
from typing import Any

import typer

from cutlayer.cli import (
    align,
    attack,
    audit,
    bench,
    compare,
    keys,
    ledger,
    listing,
    party,
    predict,
    report,
    reproduce,
    train,
)
from cutlayer.errors import CutlayerError, Interrupted
from cutlayer.version import __version__

USAGE: type[Any] = typer.BadParameter.__mro__[2]  # click's ClickException: Typer brings its own copy of click
SECOND = r"(?<=\?) \(?Did you mean"  # click, from 8.4 on, adds a suggestion to Typer's own

app = typer.Typer(
    name="cutlayer",
    help="Train one model across organisations that hold different columns, and measure what each can learn.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("train", rich_help_panel="Simulate")(train.train)
app.command("attack", rich_help_panel="Simulate")(attack.attack)
app.command("audit", rich_help_panel="Simulate")(audit.audit)
app.command("report", rich_help_panel="Simulate")(report.report)
app.command("compare", rich_help_panel="Simulate")(compare.compare)
app.command("reproduce", rich_help_panel="Look")(reproduce.reproduce)
app.command("list", rich_help_panel="Look")(listing.list_)
app.command("bench", rich_help_panel="Look")(bench.bench)
app.command("align", rich_help_panel="Deploy")(align.align)
app.command("party", rich_help_panel="Deploy")(party.party)
app.command("predict", rich_help_panel="Deploy")(predict.predict)
app.add_typer(keys.app, name="keys", rich_help_panel="Deploy")
app.add_typer(ledger.app, name="ledger", rich_help_panel="Deploy")


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for a user's mistake, 130 for Ctrl-C."""
    try:
        result = app(args=arguments, standalone_mode=False)
        code = result if isinstance(result, int) else 0
        return _say("Interrupted.", 130) if code == 130 else code
    except Interrupted as stop:
        return _say(str(stop), 130)
    except CutlayerError as error:
        return _say(str(error), 2)
    except USAGE as error:
        text = " ".join(error.format_message().split())
        return _say(re.split(SECOND, text)[0], 2) if text else 2  # none where help was asked for, by saying nothing
    except (KeyboardInterrupt, typer.Abort):
        return _say("Interrupted.", 130)
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:
        full = "the disk is full" if error.errno == errno.ENOSPC else str(error.strerror or error)
        return _say(f"Could not read or write {error.filename or 'a file'}: {full}.", 2)


def _say(text: str, code: int) -> int:
    print(f"cutlayer: {text}", file=sys.stderr)
    return code


def entry() -> None:
    """Console script."""
    sys.exit(main())
