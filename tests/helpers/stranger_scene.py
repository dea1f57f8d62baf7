"""The label party's port with two honest parties that exchange notes without end, for strangers to disturb."""

import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from cutlayer.net.peers.dialer import Dialer
from cutlayer.net.peers.events import NoteReceived, PeerJoined
from cutlayer.net.peers.listener import Listener
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.net.trust import identity
from cutlayer.net.trust.authority import Authority
from cutlayer.net.trust.identity import Identity
from tests.helpers.waiting import wait_for

PARTIES = ("bank", "shop", "cafe", "gone")
RUN = b"r" * 32
MANIFEST = {"parties": list(PARTIES)}
SECONDS = 60.0


class Scene:
    """The bank listens, the shop is in, and both exchange words without end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        year_ago = datetime.now(UTC) - timedelta(days=365)
        self.authority = Authority.create(folder / "authority", "ours", now=year_ago)
        self.keys = {name: enrol(self.authority, folder / name, name) for name in (*PARTIES, "guest")}
        self.lines: list[str] = []
        self.bank = Mailbox("bank", "bank", RUN, PARTIES[1:], PARTIES, Identity.load(self.keys["bank"]))
        self.listener = Listener(self.bank, "127.0.0.1:0", MANIFEST, self.lines.append)
        self.port = self.listener.port
        self.shop, self._dialer = self.dial("shop")
        for mailbox, peer in ((self.shop, "bank"), (self.bank, "shop")):
            assert isinstance(mailbox.events.get(timeout=SECONDS), PeerJoined)
            mailbox.links[peer].accept_new_process()  # what is sent before that goes to nobody
        self.exchanges, self.worst = 0, 0.0
        self.disturbed: list[Any] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._exchange, daemon=True)
        self._thread.start()

    def dial(self, name: str) -> tuple[Mailbox, Dialer]:
        """An honest party dials."""
        mailbox = Mailbox(name, "bank", RUN, ("bank",), PARTIES, Identity.load(self.keys[name]))
        return mailbox, Dialer(mailbox, f"127.0.0.1:{self.port}", MANIFEST, self.lines.append)

    def __enter__(self) -> "Scene":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(SECONDS)
        self._dialer.close()
        self.listener.close()

    def _exchange(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            for sender, receiver, name in ((self.shop, self.bank, "bank"), (self.bank, self.shop, "shop")):
                sender.send_note(name, "word", number=self.exchanges)
                while not self._stop.is_set():
                    if receiver.events.empty():
                        time.sleep(0.001)
                        continue
                    event = receiver.events.get()
                    if isinstance(event, NoteReceived):
                        break
                    if event.peer in ("bank", "shop"):
                        self.disturbed.append(event)
            self.worst = max(self.worst, time.monotonic() - began)
            self.exchanges += 1
            time.sleep(0.005)

    def goes_on(self, more: int = 3) -> bool:
        """Whether the honest parties soon exchange more words."""
        wanted = self.exchanges + more
        with suppress(AssertionError):
            wait_for(lambda: self.exchanges >= wanted, SECONDS)
        return self.exchanges >= wanted


def enrol(authority: Authority, folder: Path, name: str, now: datetime | None = None, days: int = 365) -> Path:
    """A party's folder, without the checks of `install`: its certificate may be expired."""
    request, _ = identity.request(folder, name)
    authority.sign(request, now=now, days=days)
    (folder / "party.pem").write_bytes((authority.folder / f"{name}.pem").read_bytes())
    (folder / "ca.pem").write_bytes((authority.folder / "ca.pem").read_bytes())
    return folder


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
