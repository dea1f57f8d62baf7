"""Stream reader: handles a stream's packets in the thread in which gRPC received them.

A loop over a stream is woken for each message, and would have to wake the party's own thread in turn. A deserialiser
is called one wake-up earlier; what it returns, or what went wrong in it, comes out of the loop.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from cutlayer.net.wire.packet import Packet

Handler = Callable[[Packet], None]


class StreamReader:
    """The deserialiser of one stream. Until `read_all` names a handler, packets come out of the loop as they are."""

    def __init__(self) -> None:
        self._handler: Handler | None = None

    def __call__(self, data: bytes) -> bytes | Exception:
        """Pass a message to the handler. An exception is returned: gRPC would end the stream without saying why."""
        if self._handler is None:
            return data
        try:
            self._handler(Packet.from_bytes(data))
        except Exception as error:
            return error
        return b""

    def read_all(self, stream: Iterable[bytes | Exception], handler: Handler) -> None:
        """Let `handler` have everything still to come: gRPC receives a message only when it is asked for."""
        self._handler = handler
        for outcome in stream:
            if isinstance(outcome, Exception):
                raise outcome


@contextmanager
def cancelled_after(seconds: float, cancel: Callable[[], object]) -> Iterator[None]:
    """Cancel a stream if the block takes longer than this."""
    timer = threading.Timer(seconds, cancel)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
