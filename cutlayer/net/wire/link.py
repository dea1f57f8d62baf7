"""Link: frames to and from one peer, in order and once each, over streams that break and come back.

Every frame has a number, and repeats the last number that arrived from the other side. Frames that the other side has
not confirmed are kept; when a stream breaks and the same two processes meet again, they are sent once more with the
same number, and a receiver that has them already drops them. So a broken connection costs nothing but time. A process
that died has forgotten its numbers: the link then starts again from zero, and the parties go back to a checkpoint.
Until the party's own thread knows about the new process (`accept_new_process`), everything it sends was meant for the
process that died, and is dropped.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from cutlayer.errors import ProtocolError
from cutlayer.net.wire.packet import VERSION, Packet

CONFIRM = 32  # frames received without sending any, after which an empty one is sent to confirm them


class Link:
    """One peer. `deliver` gets every packet that arrives, once and in order, in the stream's own thread."""

    def __init__(self, peer: str, deliver: Callable[[str, Packet], None]) -> None:
        self.peer = peer
        self._deliver = deliver
        self._order = threading.RLock()  # held while a packet is delivered, so that the next cannot overtake it
        self._lock = threading.RLock()
        self._all_confirmed = threading.Condition(self._lock)
        self._unconfirmed: deque[tuple[int, bytes]] = deque()  # packets with their numbers
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()  # packets for the current stream; None ends it
        self._sent = 0  # number of the last frame sent
        self._seen = 0  # number of the last frame that arrived
        self._confirmed = 0  # the last of their numbers that a frame of ours confirmed
        self._stream = 0  # number of the current stream
        self._open = False
        self._unknown_processes = 0  # new processes of the peer that the party's own thread has not accepted

    @property
    def is_open(self) -> bool:
        """Whether a stream is attached."""
        return self._open

    @property
    def seen(self) -> int:
        """Number of the last frame that arrived."""
        return self._seen

    def send(self, generation: int, packet: Packet) -> None:
        """Queue a packet; without a stream it waits for one. Its bytes are made now."""
        with self._lock:
            if self._unknown_processes:
                return
            number, seen = self._sent + 1, self._seen
            data = packet.numbered(generation, number, seen)
            self._sent, self._confirmed = number, seen
            self._unconfirmed.append((number, data))
            self._outbox.put(data)

    def reset(self) -> None:
        """Forget the conversation: the peer is a new process."""
        with self._order, self._lock:
            self._end()
            self._unconfirmed.clear()
            self._sent = self._seen = self._confirmed = 0
            self._unknown_processes += 1

    def accept_new_process(self) -> None:
        """The party's own thread knows that the peer is a new process, and from now on sends to that one."""
        with self._lock:
            self._unknown_processes = max(0, self._unknown_processes - 1)

    def attach(self, seen: int) -> int:
        """Use a new stream to a peer that has seen frames up to this number; later ones are sent again."""
        with self._order, self._lock:
            if not self._sent - len(self._unconfirmed) <= seen <= self._sent:
                raise ProtocolError(f"Expected {self.peer} to have seen frames that were sent, got {seen}.")
            self._confirm(seen)
            self._end()
            self._open = True
            self._outbox = SimpleQueue()
            for _, data in self._unconfirmed:
                self._outbox.put(data)
            return self._stream

    def close(self) -> None:
        """End the current stream, if there is one."""
        with self._order, self._lock:
            self._end()

    def detach(self, stream: int) -> bool:
        """A stream ended; return whether it was the current one."""
        with self._lock:
            if stream != self._stream or not self._open:
                return False
            self._end()
            return True

    def outgoing(self, stream: int) -> Iterator[bytes]:
        """The packets to send over a stream, as they come; ends when the stream is no longer the current one."""
        with self._lock:
            outbox = self._outbox
            if stream != self._stream:
                return
        while (data := outbox.get()) is not None and stream == self._stream:
            yield data

    def receive(self, stream: int, packet: Packet) -> None:
        """Take a packet off a stream: deliver it if it is the next one, drop it if it arrived before."""
        with self._order:
            if self._is_next(stream, packet):
                self._deliver(self.peer, packet)

    def wait_confirmed(self, timeout: float) -> bool:
        """Wait until the peer has confirmed everything or has hung up; return whether it confirmed."""
        with self._lock:
            self._all_confirmed.wait_for(lambda: not (self._unconfirmed and self._open), timeout)
            return not self._unconfirmed

    def _is_next(self, stream: int, packet: Packet) -> bool:
        number, seen = packet.number, packet.seen
        with self._lock:
            if stream != self._stream:
                return False
            if packet.version != VERSION or number > self._seen + 1 or seen > self._sent:
                raise ProtocolError(f"Expected frame {self._seen + 1} of {self.peer}, got {number}.")
            self._confirm(seen)
            if number <= self._seen:
                return False
            self._seen = number
            if number - self._confirmed >= CONFIRM:
                self._confirmed = number
                self._outbox.put(Packet(seen=number).to_bytes())  # without a number of its own
            return True

    def _end(self) -> None:
        """Detach the current stream and wake everyone who waits on it."""
        self._stream += 1
        self._open = False
        self._outbox.put(None)
        self._all_confirmed.notify_all()

    def _confirm(self, seen: int) -> None:
        while self._unconfirmed and self._unconfirmed[0][0] <= seen:
            self._unconfirmed.popleft()
        if not self._unconfirmed:
            self._all_confirmed.notify_all()
