"""cutlayer party: run one party of a federation, over the network or, to rehearse, all of them here."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

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
    from cutlayer.net.party.party_file import example as example_of
    from cutlayer.net.party.party_file import read_file

    if example is not None:
        print(example_of(example), end="")
        return
    if not files or (len(files) > 1 and not simulate):
        raise ConfigError("Expected one party's file (several with --simulate); see `cutlayer party --example label`.")
    read = [read_file(path) for path in files]
    if simulate:
        from cutlayer.net.party.rehearse import rehearse

        record = rehearse(read)
    elif check:
        from cutlayer.net.party.member import identity_of
        from cutlayer.net.party.own_data import source_of

        source = source_of(read[0])
        identity = None if insecure else identity_of(read[0])
        ids = source.ids
        counts = None if ids is None else {"usable": len(ids), "empty": ids.empty, "repeated": ids.repeated}
        print(f"{files[0]} is in order; run {read[0].run.digest.hex()[:16]}.", file=sys.stderr)
        record = {
            "party": read[0].party.name,
            "run": read[0].run.digest.hex(),
            "ids": counts,
            "certificate": None if identity is None else str(identity.certificate.not_valid_after_utc),
        }
    else:
        record = _run(read[0], insecure, device)
    if as_json:
        print(json.dumps(record))
    else:
        _show(record)


def _run(file: "PartyFile", insecure: bool, device: str) -> dict[str, Any]:
    from cutlayer.cli.show import progress_bar
    from cutlayer.errors import Interrupted
    from cutlayer.net.party.member import Member

    with progress_bar("training") as progress:
        member = Member(file, insecure=insecure, device=device, log=_say, progress=progress)
        try:
            return member.run()
        except KeyboardInterrupt:
            if not (steps := member.store.steps()):
                raise
            raise Interrupted(
                f"Interrupted. The last checkpoint, of step {steps[-1]}, is in {file.folder}: start this again with "
                "the same command, and all go on from the last checkpoint that they have in common."
            ) from None


def _say(text: str) -> None:
    print(f"cutlayer: {text}", file=sys.stderr, flush=True)


def _show(record: dict[str, Any]) -> None:
    if ids := record.get("ids"):
        typer.echo(f"ids here: {ids['usable']} usable, {ids['empty']} rows without one, {ids['repeated']} repeated")
    for key, value in record.items():
        if isinstance(value, float):
            typer.echo(f"{key}: {value:.4f}")
    for name, digest in record.get("models", {}).items():
        typer.echo(f"{name}: sha256 {digest}")
