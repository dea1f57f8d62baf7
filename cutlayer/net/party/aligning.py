"""Aligning without training, as `cutlayer align` does it. Every party keeps its result, and training takes it up."""

from collections.abc import Mapping
from typing import TypedDict

from cutlayer.errors import ConfigError, RunError
from cutlayer.net.party.alignment import Alignment, AlreadyFinished
from cutlayer.net.party.connection import Connection
from cutlayer.net.party.own_data import data_source
from cutlayer.net.party.training import refuse_other_run
from cutlayer.net.peers.ending import dismiss_all, say_goodbye
from cutlayer.net.peers.events import Regroup, Topic


class AlignRecord(TypedDict):
    """What `cutlayer align` prints."""

    party: str
    run: str
    rows: int  # that all parties have
    ids: Mapping[str, int]  # of this party: used, and left out for which reason


def align(connection: Connection) -> AlignRecord:
    """Align; how many rows all parties have, and how many of this party's ids could be used."""
    refuse_other_run(connection)
    source, folder = data_source(connection.file), connection.folder
    if folder.read_json("run") is not None:
        raise ConfigError(f"The run in {folder.path} is finished; choose another folder for a new one.")
    if source.ids is None:
        raise ConfigError(f"Expected tables to align, got {connection.run.dataset}, whose rows are in order already.")
    alignment = Alignment(connection, source, lambda message: None)
    with connection.opened():
        _align_until_done(connection, alignment)
    if alignment.name is None:
        raise RunError(f"{connection.label_party} has aligned, but {folder.path} holds no part of it.")
    return {
        "party": connection.name,
        "run": connection.run.digest.hex(),
        "rows": len(folder.rows()),
        "ids": source.ids.counts(),
    }


def _align_until_done(connection: Connection, alignment: Alignment) -> None:
    while True:
        try:
            alignment.agree()
            _wait_for_all(connection)
            return
        except Regroup as regroup:
            connection.log(f"{regroup.peer} started again: meeting once more.")
        except AlreadyFinished:  # all had stored it before this process began
            say_goodbye(connection.inbox, connection.label_party)
            return


def _wait_for_all(connection: Connection) -> None:
    """Nobody leaves before all have stored the alignment."""
    mailbox, inbox, label_party = connection.mailbox, connection.inbox, connection.label_party
    if mailbox.leads:
        inbox.wait_notes(Topic.SAVED, mailbox.peers)
        try:
            dismiss_all(inbox, mailbox.peers)
        except RunError as error:
            connection.log(f"All have the alignment, though not all have heard so ({error})")
    else:
        mailbox.send_note(label_party, Topic.SAVED)
        inbox.wait_note((Topic.DONE,), label_party)
        say_goodbye(inbox, label_party)
