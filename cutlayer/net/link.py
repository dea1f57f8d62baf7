"""Link: frames to and from one peer, in order and once each, over streams that come and go.

Every frame has a number, and says the last number that came from the other side. What the other side has not
confirmed is kept; when a stream breaks and the same two processes meet again, it is sent once more, with the
same number, and whoever has it already drops it. So a broken connection costs nothing but time. A process that
died has forgotten its numbers: then the link starts afresh, and the parties go back to a checkpoint.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from cutlayer.errors import ProtocolError
from cutlayer.net import schema
from cutlayer.net.frame import VERSION


class Link:
    """One peer. `deliver` gets every frame that arrives, once and in order, in the stream's own thread."""

    def __init__(self, peer: str, deliver: Callable[[str, Any], None]) -> None:
        self.peer = peer
        self._deliver = deliver
        self._changed = threading.Condition()
        self._kept: deque[Any] = deque()  # frames that the peer has not confirmed
        self._number = 0  # of the last frame that was sent
        self._seen = 0  # of the last frame that arrived
        self._stream = 0  # which of the streams so far is the one in use
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether a stream is attached."""
        return self._open

    @property
    def seen(self) -> int:
        """Number of the last frame that arrived."""
        return self._seen

    def send(self, generation: int, *, note: Any = None, tensor: Any = None) -> None:
        """Put a frame on its way; if there is no stream, it waits for one."""
        with self._changed:
            self._number += 1
            body = {"note": note} if tensor is None else {"tensor": tensor}
            self._kept.append(schema.Frame(version=VERSION, number=self._number, generation=generation, **body))
            self._changed.notify_all()

    def reset(self) -> None:
        """Forget the conversation: the peer is a new process."""
        with self._changed:
            self._kept.clear()
            self._number = self._seen = 0

    def attach(self, seen: int) -> int:
        """Use a new stream to a peer that has seen so many frames; what it has not seen is sent again."""
        with self._changed:
            if not self._number - len(self._kept) <= seen <= self._number:
                raise ProtocolError(f"Expected {self.peer} to have seen frames that were sent, got {seen}.")
            self._confirm(seen)
            self._stream += 1
            self._open = True
            self._changed.notify_all()
            return self._stream

    def close(self) -> None:
        """End whatever stream is in use."""
        with self._changed:
            self._stream += 1
            self._open = False
            self._changed.notify_all()

    def detach(self, stream: int) -> bool:
        """A stream ended; whether it was the one in use."""
        with self._changed:
            if stream != self._stream or not self._open:
                return False
            self._open = False
            self._changed.notify_all()
            return True

    def outgoing(self, stream: int) -> Iterator[Any]:
        """The frames to send over a stream, as they come; ends when the stream is no longer in use."""
        sent = self._number - len(self._kept)
        while True:
            with self._changed:
                while stream == self._stream and self._open and self._number <= sent:
                    self._changed.wait()
                if stream != self._stream or not self._open:
                    return
                first = self._number - len(self._kept)
                sent = max(sent, first)
                if sent == self._number:
                    continue
                frame = self._kept[sent - first]
                frame.seen = self._seen
                sent = frame.number
            yield frame

    def receive(self, stream: int, frame: Any) -> None:
        """Take a frame off a stream: deliver it if it is the next one, drop it if it came before."""
        with self._changed:
            if stream != self._stream:
                return
            if frame.version != VERSION or frame.number > self._seen + 1 or frame.seen > self._number:
                raise ProtocolError(f"Expected frame {self._seen + 1} of {self.peer}, got {frame.number}.")
            self._confirm(frame.seen)
            if frame.number <= self._seen:
                return
            self._seen = frame.number
        self._deliver(self.peer, frame)

    def drained(self, timeout: float) -> bool:
        """Wait until the peer has confirmed everything; whether it did."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._kept, timeout)

    def _confirm(self, seen: int) -> None:
        while self._kept and self._kept[0].number <= seen:
            self._kept.popleft()
        self._changed.notify_all()
