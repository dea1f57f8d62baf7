"""The target of the fuzzers: everything that looks at a peer's bytes before the party itself does.

Only ProtocolError may come out.
"""

import json
import re
import signal
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, field

from cutlayer.errors import ProtocolError
from cutlayer.net.peers.differences import differences
from cutlayer.net.peers.events import MessageReceived
from cutlayer.net.peers.handshake import Hello, Welcome, read_opening, verify_welcome, welcome_statement
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.net.trust.identity import Identity
from cutlayer.net.wire.packet import Packet
from tests.helpers.fuzz_corpus import MANIFEST, PARTIES, ROWS, RUN, SHAPES, small_parts, split

SLOW = 5  # seconds for one input, after which it counts as a hang
SPARE = 1 << 20  # bytes that an input may cost on top of a multiple of its length


@dataclass
class Tally:
    """The results of the inputs so far."""

    inputs: int = 0
    frames: int = 0
    malformed: int = 0
    accepted: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    slowest_ms: float = 0.0
    largest_payload: int = 0  # bytes of a decoded message
    largest_ratio: float = 0.0  # of a decoded message's bytes to those that were sent
    largest_traced: int = 0  # bytes that Python allocated at once, of the inputs that were traced
    traced: int = 0
    broken: list[str] = field(default_factory=list)


class Target:
    """Takes an input as the label party, as a feature party, and as an opening."""

    def __init__(self, keys: dict[str, Identity]) -> None:
        self.keys, self.tally = keys, Tally()
        self.mailboxes = [
            (Mailbox("bank", "bank", RUN, ("shop", "cafe"), PARTIES, keys["bank"]), "shop"),
            (Mailbox("cafe", "bank", RUN, ("bank",), PARTIES, keys["cafe"]), "bank"),
        ]
        for (mailbox, _), shapes in zip(self.mailboxes, (SHAPES, {}), strict=True):  # after the meeting, and before it
            mailbox.generation = 1
            mailbox.allow(shapes, ROWS)

    def feed(self, data: bytes) -> None:
        """One input; raises only if something is wrong with the decoder."""
        with small_parts():
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        tally, frames = self.tally, split(data)
        tally.inputs += 1
        tally.frames += len(frames)
        parsed = []
        for packet in frames:
            try:
                parsed.append(Packet.from_bytes(packet))
            except ProtocolError as error:
                self._refused(str(error))
        taken = [0] * len(parsed)  # by how many of those who looked at it
        for mailbox, peer in self.mailboxes:
            for number in self._deliver(mailbox, peer, parsed):
                taken[number] += 1
        for number, packet in enumerate(parsed):
            taken[number] += self._read_opening(packet)
        accepted = sum(map(bool, taken))
        tally.accepted += accepted
        tally.malformed += len(frames) - accepted
        self._weigh(len(data))

    def _deliver(self, mailbox: Mailbox, peer: str, parsed: Sequence[Packet]) -> list[int]:
        """Let a link take frames; at first, and after a frame that it refuses, it starts afresh with the next."""
        link, stream, taken, fresh = mailbox.links[peer], 0, [], True
        for number, packet in enumerate(parsed):
            if fresh:
                mailbox.restart_link(peer)
                link.accept_new_process()
                stream, fresh = link.attach(0), False
                link._seen = max(0, packet.number - 1)
            try:
                link.receive(stream, packet)
            except ProtocolError as error:
                self._refused(str(error))
                fresh = True
            else:
                taken.append(number)
        return taken

    def _read_opening(self, packet: Packet) -> bool:
        try:
            hello = read_opening(packet, Hello)
            manifest = json.loads(hello.manifest) if len(hello.manifest) < 10_000 else {}
            for line in differences(MANIFEST, manifest if isinstance(manifest, dict) else {}, hello.name):
                assert line.isprintable()
            welcome_statement(hello, Welcome("1" * 32, False, 0), "bank")
            return True
        except (
            ProtocolError,
            ValueError,
            RecursionError,
        ) as error:  # the last two: what the listener does with manifests
            if not isinstance(error, ProtocolError) and "hello" not in locals():
                raise
            self._refused(str(error) if isinstance(error, ProtocolError) else "no manifest")
        try:
            welcome = read_opening(packet, Welcome)
            verify_welcome(self.keys["cafe"], Hello("shop", "0" * 32, "1" * 32, 3, "{}", "2" * 32), welcome, "bank")
            return True
        except ProtocolError as error:
            self._refused(str(error))
        return False

    def _refused(self, why: str) -> None:
        words = re.sub(r"\d+", "N", " ".join(why.split()[:5])).rstrip(".,:")
        words = words if words in self.tally.refusals or len(self.tally.refusals) < 100 else "other"
        self.tally.refusals[words] = self.tally.refusals.get(words, 0) + 1

    def _weigh(self, sent: int) -> None:
        """Look at what was decoded, then forget it."""
        for mailbox, _ in self.mailboxes:
            while not mailbox.events.empty():
                event = mailbox.events.get()
                if isinstance(event, MessageReceived):
                    size = event.message.payload.nbytes
                    self.tally.largest_payload = max(self.tally.largest_payload, size)
                    self.tally.largest_ratio = max(self.tally.largest_ratio, size / max(1, sent))
                    assert size <= 32 * sent, f"{size} bytes decoded from {sent}"
        for link in self.mailboxes[0][0].links.values():  # what was forwarded
            link._unconfirmed.clear()
            link._sent = link._confirmed = 0
            while not link._outbox.empty():
                link._outbox.get()

    def watch(self, data: bytes, trace: bool = False) -> None:
        """Feed an input, and note what goes wrong with it."""
        tally, began = self.tally, time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, SLOW)
        if trace:
            tracemalloc.start()
        try:
            self.feed(data)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            tally.broken.append(f"{type(error).__name__}: {error} from {data[:2000].hex()}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if trace:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                tally.traced += 1
                tally.largest_traced = max(tally.largest_traced, peak)
                if peak > 64 * len(data) + SPARE:
                    tally.broken.append(f"{peak} bytes allocated for {data[:2000].hex()}")
        tally.slowest_ms = max(tally.slowest_ms, 1000 * (time.perf_counter() - began))
