"""Connection: what one party's process needs to take part, whether it trains, aligns or predicts.

It locks the party's folder, loads its identity, and then listens or dials, with a ledger of everything that leaves.
Training, aligning and prediction use one; none of them sets up links of its own.
"""

import errno
import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from enum import Enum
from types import TracebackType

from cutlayer.errors import ConfigError, CutlayerError, Diverged, RunError
from cutlayer.json_types import Json
from cutlayer.message import Message
from cutlayer.net.party.ledger import Ledger
from cutlayer.net.party.own_data import TooFewRows
from cutlayer.net.party.party_file import PartyFile
from cutlayer.net.party.run_folder import RunFolder
from cutlayer.net.peers.carrier import Carrier
from cutlayer.net.peers.dialer import Dialer
from cutlayer.net.peers.ending import report_stop, wait_until_stopped
from cutlayer.net.peers.events import Stopped
from cutlayer.net.peers.inbox import Inbox
from cutlayer.net.peers.listener import Listener
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.net.peers.presence import Patience, Presence
from cutlayer.net.trust.identity import Identity
from cutlayer.settings import settings_of
from cutlayer.training import using_threads


class Purpose(Enum):
    """What a process takes part in. Processes with different purposes refuse each other, and say so."""

    TRAIN = "train"
    ALIGN = "align"
    PREDICT = "predict"


RESUME = "; what was trained is kept: start all parties again, and they go on from the last checkpoint."
RETRY = ": start it, and then this again."


class Connection:
    """One party's folder, identity, mailbox and carrier; a context manager, which releases them all."""

    def __init__(
        self,
        file: PartyFile,
        purpose: Purpose,
        *,
        insecure: bool = False,
        wait: float | None = None,
        log: Callable[[str], None] = print,
    ) -> None:
        self.file, self.run, self.log = file, file.run, log
        self.name, self.label_party = file.party.name, file.run.label_party
        self.folder = RunFolder(file.folder)
        self.manifest: dict[str, Json] = self.run.to_json()
        if purpose is not Purpose.TRAIN:
            self.manifest["purpose"] = purpose.value
        patience = Patience(file.party.wait if wait is None else wait, RETRY if purpose is Purpose.PREDICT else RESUME)
        with ExitStack() as resources:  # released at once if one of these fails
            resources.enter_context(self.folder.locked())
            self.mailbox = _mailbox(file, purpose, None if insecure else load_identity(file))
            self.inbox = Inbox(self.mailbox, Presence(self.mailbox, patience, log))
            self.carrier = Carrier(self.mailbox, self.inbox, self._note_release)
            self._resources = resources.pop_all()
        self._ledger: Ledger | None = None
        self.port = 0  # where the label party listens, once it is open

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._resources.close()

    def open(self) -> None:
        """Open the ledger, then listen or dial."""
        path, party = self.folder.path / "ledger.jsonl", self.file.party
        ledger = Ledger(path, run=self.run.digest.hex(), defences=settings_of(self.run.plan()).defences)
        self._ledger = self._resources.enter_context(closing(ledger))
        if self.file.is_label_party:
            listener = Listener(self.mailbox, party.listen, self.manifest, self.log)
            self._resources.enter_context(closing(listener))
            self.port = listener.port
            self.log(f"{party.name} listens at {party.listen.rpartition(':')[0]}:{self.port}.")
        else:
            self.log(f"{party.name} dials {party.connect}.")
            self._resources.enter_context(closing(Dialer(self.mailbox, party.connect, self.manifest, self.log)))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open for the block; an error of ours in it is reported to the other parties."""
        self.open()
        try:
            with using_threads(1):
                yield
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise RunError(
                    f"The disk is full while writing {self.folder.path}; what was complete is kept: free some space "
                    "and start again."
                ) from error
            raise
        except CutlayerError as error:
            report_error(self.inbox, error)
            raise

    def _note_release(self, message: Message) -> None:
        assert self._ledger is not None
        self._ledger.write(message)


def report_error(inbox: Inbox, error: CutlayerError) -> None:
    """Tell the others that this ends the run for all, unless a party is missing or they know already."""
    leads = inbox.mailbox.leads
    missing = isinstance(error, RunError) and not isinstance(error, Diverged)
    if isinstance(error, TooFewRows) and not leads:
        wait_until_stopped(inbox, 5.0)  # every party sees it for itself
    elif not missing and (leads or not isinstance(error, Stopped)):
        report_stop(inbox, error)


def load_identity(file: PartyFile) -> Identity:
    """The party's keys and certificate, which must be its own."""
    if not file.party.keys:
        raise ConfigError(f"Expected `keys` in [party] of {file.path}: make some with `cutlayer keys request`.")
    identity = Identity.load(file.at(file.party.keys))
    if identity.name != file.party.name:
        raise ConfigError(f"Expected keys of {file.party.name!r} in {file.party.keys}, got those of {identity.name!r}.")
    return identity


def _mailbox(file: PartyFile, purpose: Purpose, identity: Identity | None) -> Mailbox:
    """A mailbox with a link to every party that this one is connected to."""
    run, digest = file.run, file.run.digest
    if purpose is Purpose.PREDICT:  # so that no message of a prediction passes for one of the training
        digest = hashlib.sha256(digest + b"predict").digest()
    feature_parties = tuple(party for party in run.parties if party != run.label_party)
    peers = feature_parties if file.is_label_party else (run.label_party,)
    return Mailbox(file.party.name, run.label_party, digest, peers, run.parties, identity)
