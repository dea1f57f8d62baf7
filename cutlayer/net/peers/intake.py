"""Intake: takes a stream's packets in the thread that gRPC received them in.

Whoever iterates over a stream is woken for each message, and would have to wake the party's own thread in turn. A
deserialiser is called one wake-up earlier; what it returns, or what went wrong in it, comes out of the iteration.
"""

from collections.abc import Callable, Iterable

from cutlayer.net.wire.packet import Packet

Taker = Callable[[Packet], None]


class Intake:
    """The deserialiser of one stream. Until `drain` names a taker, packets come out of the iteration as they are."""

    def __init__(self) -> None:
        self._taker: Taker | None = None

    def __call__(self, data: bytes) -> bytes | Exception:
        """Hand a message to the taker; gRPC would log an exception, and end the stream without saying why."""
        if self._taker is None:
            return data
        try:
            self._taker(Packet.from_bytes(data))
        except Exception as error:
            return error
        return b""

    def drain(self, stream: Iterable[bytes | Exception], taker: Taker) -> None:
        """Let `taker` have all that is still to come: gRPC receives the next message only when it is asked for it."""
        self._taker = taker
        for outcome in stream:
            if isinstance(outcome, Exception):
                raise outcome
