"""cutlayer party: run one party of a federation, over the network or, to rehearse, all of them here."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cutlayer.cli.deployed import log_line, show_ids

if TYPE_CHECKING:
    from cutlayer.net.party.party_file import PartyFile


def party(
    files: Annotated[
        list[Path] | None, Argument(help="This party's TOML file; with --simulate the files of all parties.")
    ] = None,
    example: Annotated[str | None, Option(help="Print a file to start from: label or feature.", metavar="ROLE")] = None,
    check: Annotated[bool, Option(help="Read the file, the table and the keys, say what is wrong, and stop.")] = False,
    simulate: Annotated[
        bool,
        Option(
            help="Run all parties in this process: a rehearsal. With `seed` in every [party] it gives the models of a "
            "deployment, bit for bit; without, each draws its own."
        ),
    ] = False,
    insecure: Annotated[bool, Option(help="Without certificates; on this machine's loopback only.")] = False,
    device: Annotated[str, Option(help="cpu or cuda.")] = "cpu",
    as_json: Annotated[bool, Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Run one party: meet the others, align ids, train, test, save this party's models.

    Every party starts this with its own file, in any order. The label party listens, feature parties dial. If a
    party stops, start it again with the same command: all go on from the last checkpoint that they have in common.
    """
    from cutlayer.errors import ConfigError
    from cutlayer.net.party.party_file import read_file

    if example is not None:
        from cutlayer.net.party.example_file import example_of

        print(example_of(example), end="")
        return
    if not files or (len(files) > 1 and not simulate):
        raise ConfigError("Expected one party's file (several with --simulate); see `cutlayer party --example label`.")
    party_files = [read_file(path) for path in files]
    if simulate:
        from cutlayer.net.party.rehearse import rehearse

        record = rehearse(party_files)
    elif check:
        record = _check(party_files[0], insecure)
    else:
        record = _train(party_files[0], insecure, device)
    if as_json:
        print(json.dumps(record))
    else:
        _show(record)


def _check(file: "PartyFile", insecure: bool) -> dict[str, Any]:
    from cutlayer.net.party.connection import load_identity
    from cutlayer.net.party.own_data import data_source

    ids = data_source(file).ids
    identity = None if insecure else load_identity(file)
    digest = file.run.digest.hex()
    print(f"{file.path} is in order; run {digest[:16]}.", file=sys.stderr)
    return {
        "party": file.party.name,
        "run": digest,
        "ids": None if ids is None else ids.counts(),
        "certificate": None if identity is None else str(identity.certificate.not_valid_after_utc),
    }


def _train(file: "PartyFile", insecure: bool, device: str) -> dict[str, Any]:
    from cutlayer.cli.show import progress_bar
    from cutlayer.errors import Interrupted
    from cutlayer.net.party.connection import Connection, Purpose
    from cutlayer.net.party.training import Training

    with (
        progress_bar("training") as progress,
        Connection(file, Purpose.TRAIN, insecure=insecure, log=log_line) as connection,
    ):
        training = Training(connection, device=device, progress=progress)
        try:
            return training.run()
        except KeyboardInterrupt:
            if not (steps := connection.folder.steps()):
                raise
            raise Interrupted(
                f"Interrupted. The last checkpoint, of step {steps[-1]}, is in {file.folder}: start this again with "
                "the same command, and all go on from the last checkpoint that they have in common."
            ) from None


def _show(record: dict[str, Any]) -> None:
    if ids := record.get("ids"):
        show_ids(ids)
    for key, value in record.items():
        if isinstance(value, float):
            typer.echo(f"{key}: {value:.4f}")
    for name, digest in record.get("models", {}).items():
        typer.echo(f"{name}: sha256 {digest}")
