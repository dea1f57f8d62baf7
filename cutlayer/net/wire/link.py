"""Link: frames to and from one peer, in order and once each, over streams that come and go.

Every frame has a number, and says the last number that came from the other side. What the other side has not
confirmed is kept; when a stream breaks and the same two processes meet again, it is sent once more, with the
same number, and whoever has it already drops it. So a broken connection costs nothing but time. A process that
died has forgotten its numbers: then the link starts afresh, and the parties go back to a checkpoint. Until the
party's own thread has heard of that (`greet`), whatever it sends was meant for the process that died, and is dropped.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from cutlayer.errors import ProtocolError
from cutlayer.net.wire.packet import VERSION, Packet

CONFIRM = 32  # after so many frames without a word of ours, one is sent that says only what has arrived


class Link:
    """One peer. `deliver` gets every packet that arrives, once and in order, in the stream's own thread."""

    def __init__(self, peer: str, deliver: Callable[[str, Packet], None]) -> None:
        self.peer = peer
        self._deliver = deliver
        self._order = threading.RLock()  # held while a packet is delivered, so that the next cannot overtake it
        self._lock = threading.RLock()
        self._confirmed = threading.Condition(self._lock)
        self._kept: deque[tuple[int, bytes]] = deque()  # packets that the peer has not confirmed, with their numbers
        self._line: SimpleQueue[bytes | None] = SimpleQueue()  # packets for the stream in use; None ends it
        self._number = 0  # of the last frame that was sent
        self._seen = 0  # of the last frame that arrived
        self._said = 0  # the last number of theirs that a frame of ours confirmed
        self._stream = 0  # which of the streams so far is the one in use
        self._open = False
        self._strange = 0  # new processes of the peer that the party's own thread has not heard of

    @property
    def is_open(self) -> bool:
        """Whether a stream is attached."""
        return self._open

    @property
    def seen(self) -> int:
        """Number of the last frame that arrived."""
        return self._seen

    def send(self, generation: int, packet: Packet) -> None:
        """Put a packet on its way; if there is no stream, it waits for one. It is made now, of what holds now."""
        with self._lock:
            if self._strange:
                return
            number, seen = self._number + 1, self._seen
            data = packet.numbered(generation, number, seen)
            self._number, self._said = number, seen
            self._kept.append((number, data))
            self._line.put(data)

    def reset(self) -> None:
        """Forget the conversation: the peer is a new process."""
        with self._order, self._lock:
            self._end()
            self._kept.clear()
            self._number = self._seen = self._said = 0
            self._strange += 1

    def greet(self) -> None:
        """The party's own thread has heard of the peer's new process, and speaks to that one from now on."""
        with self._lock:
            self._strange = max(0, self._strange - 1)

    def attach(self, seen: int) -> int:
        """Use a new stream to a peer that has seen so many frames; what it has not seen is sent again."""
        with self._order, self._lock:
            if not self._number - len(self._kept) <= seen <= self._number:
                raise ProtocolError(f"Expected {self.peer} to have seen frames that were sent, got {seen}.")
            self._confirm(seen)
            self._end()
            self._open = True
            self._line = SimpleQueue()
            for _, data in self._kept:
                self._line.put(data)
            return self._stream

    def close(self) -> None:
        """End whatever stream is in use."""
        with self._order, self._lock:
            self._end()

    def detach(self, stream: int) -> bool:
        """A stream ended; whether it was the one in use."""
        with self._lock:
            if stream != self._stream or not self._open:
                return False
            self._end()
            return True

    def outgoing(self, stream: int) -> Iterator[bytes]:
        """The packets to send over a stream, as they come; ends when the stream is no longer in use."""
        with self._lock:
            line = self._line
            if stream != self._stream:
                return
        while (data := line.get()) is not None and stream == self._stream:
            yield data

    def receive(self, stream: int, packet: Packet) -> None:
        """Take a packet off a stream: deliver it if it is the next one, drop it if it came before."""
        with self._order:
            if self._is_next(stream, packet):
                self._deliver(self.peer, packet)

    def drained(self, timeout: float) -> bool:
        """Wait until the peer has confirmed everything, or has hung up; whether it confirmed."""
        with self._lock:
            self._confirmed.wait_for(lambda: not (self._kept and self._open), timeout)
            return not self._kept

    def _is_next(self, stream: int, packet: Packet) -> bool:
        number, seen = packet.number, packet.seen
        with self._lock:
            if stream != self._stream:
                return False
            if packet.version != VERSION or number > self._seen + 1 or seen > self._number:
                raise ProtocolError(f"Expected frame {self._seen + 1} of {self.peer}, got {number}.")
            self._confirm(seen)
            if number <= self._seen:
                return False
            self._seen = number
            if number - self._said >= CONFIRM:
                self._said = number
                self._line.put(Packet(seen=number).to_bytes())  # and no number
            return True

    def _end(self) -> None:
        """No stream is in use; whoever waits on the last one hears of it."""
        self._stream += 1
        self._open = False
        self._line.put(None)
        self._confirmed.notify_all()

    def _confirm(self, seen: int) -> None:
        while self._kept and self._kept[0][0] <= seen:
            self._kept.popleft()
        if not self._kept:
            self._confirmed.notify_all()
