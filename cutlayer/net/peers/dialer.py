"""Dialer: a feature party's side. It dials the label party, and dials again whenever the stream breaks."""

import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from cutlayer.errors import CutlayerError, ProtocolError, RunError
from cutlayer.json_types import Json
from cutlayer.net.peers.channel_settings import KEEPALIVE, RECONNECT, require_loopback
from cutlayer.net.peers.events import PeerFailed, PeerJoined, PeerLost
from cutlayer.net.peers.handshake import (
    REFUSED,
    Hello,
    Welcome,
    opening_packet,
    read_opening,
    read_refusal,
    verify_welcome,
)
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.net.peers.stream_reader import StreamReader, cancelled_after
from cutlayer.net.trust.credentials import channel_credentials, channel_options, grpc
from cutlayer.net.trust.recheck import rechecked
from cutlayer.net.wire.link import Link
from cutlayer.net.wire.packet import Packet
from cutlayer.net.wire.schema import JOIN

CONNECT_SECONDS = 10.0  # for one attempt
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between attempts


class Refusal(ProtocolError):
    """The label party will not start with us; trying again would not help."""


class Outgoing:
    """What a dialer sends over one stream: its hello, then, once the stream is attached, the link's packets."""

    def __init__(self, hello: Hello, link: Link) -> None:
        self._hello, self._link = opening_packet(hello).to_bytes(), link
        self._ready = threading.Event()
        self._stream: int | None = None

    def packets(self) -> Iterator[bytes]:
        """The packets, in the thread in which gRPC sends them."""
        yield self._hello
        self._ready.wait()
        if self._stream is not None:
            yield from self._link.outgoing(self._stream)

    def attach(self, stream: int) -> None:
        """Go on with the packets of this stream."""
        self._stream = stream
        self._ready.set()

    def end(self) -> None:
        """Send nothing more, if the stream was never attached."""
        self._ready.set()


class Dialer:
    """Keeps a stream to the label party for as long as this process lives."""

    def __init__(
        self, mailbox: Mailbox, address: str, manifest: Mapping[str, Json], log: Callable[[str], None]
    ) -> None:
        self.mailbox, self.address, self.log = mailbox, address, log
        self.manifest = json.dumps(manifest)
        self._known_process = ""  # of the label party
        self._closed = threading.Event()
        self._channel: grpc.Channel | None = None
        if mailbox.identity is None:
            require_loopback(address)
        threading.Thread(target=self._stay_connected, daemon=True).start()

    def close(self) -> None:
        """Hang up."""
        self._closed.set()
        if self._channel is not None:
            self._channel.close()

    def _stay_connected(self) -> None:
        """Dial until told to stop, more slowly after every failure."""
        pause, label_party = SHORTEST_PAUSE, self.mailbox.label_party
        while not self._closed.is_set():
            try:
                self._channel = self._open()
                answered = self._converse(self._channel)
            except CutlayerError as error:
                self.mailbox.put(PeerFailed(label_party, error))
                return
            except Exception as error:  # otherwise this thread would end unnoticed, and the party wait for ever
                if not self._closed.is_set():
                    failure = RunError(f"Lost {label_party} for a reason of our own: {error!r}.")
                    self.mailbox.put(PeerFailed(label_party, failure))
                return
            finally:
                if self._channel is not None:
                    self._channel.close()
            pause = SHORTEST_PAUSE if answered else min(LONGEST_PAUSE, pause * 2)
            self._closed.wait(pause * random.uniform(0.5, 1.0))

    def _open(self) -> grpc.Channel:
        identity = self.mailbox.identity
        options: list[tuple[str, int | str]] = [*KEEPALIVE, *RECONNECT]
        if identity is None:
            return grpc.insecure_channel(self.address, options=options)
        options += channel_options(self.mailbox.label_party)
        return grpc.secure_channel(self.address, channel_credentials(identity), options=options)

    def _converse(self, channel: grpc.Channel) -> bool:
        """One stream, from hello to its end; return whether the label party let us in."""
        mailbox, label_party = self.mailbox, self.mailbox.label_party
        link = mailbox.links[label_party]
        seen = link.seen if self._known_process else 0
        hello = Hello(mailbox.name, mailbox.incarnation, self._known_process, seen, self.manifest)
        outgoing, reader = Outgoing(hello, link), StreamReader()
        reason, stream = "the connection was lost", None
        try:
            grpc.channel_ready_future(channel).result(CONNECT_SECONDS)
            answers = channel.stream_stream(JOIN, response_deserializer=reader)(outgoing.packets())
            with cancelled_after(CONNECT_SECONDS, answers.cancel):
                welcome = self._read_welcome(hello, Packet.from_bytes(next(answers)))
            stream = self._attach(welcome)
            outgoing.attach(stream)
            with rechecked(mailbox.identity, welcome.certificate.encode(), label_party, answers.cancel, self.log):
                reader.read_all(answers, partial(link.receive, stream))
        except (grpc.RpcError, grpc.FutureTimeoutError, StopIteration, ValueError) as error:
            code = error.code() if isinstance(error, grpc.Call) else None
            if code is grpc.StatusCode.PERMISSION_DENIED:
                raise Refusal(f"{label_party} refused us: it may not know our name or our certificate.") from error
            reason = str(error.details()) if isinstance(error, grpc.Call) else reason
        finally:
            outgoing.end()
            if stream is not None and link.detach(stream) and not self._closed.is_set():
                mailbox.put(PeerLost(label_party, reason))
        return stream is not None

    def _read_welcome(self, hello: Hello, packet: Packet) -> Welcome:
        note = packet.frame.note
        if note.topic == REFUSED:
            lines = "; ".join(read_refusal(note.text))
            raise Refusal(f"The manifests differ, so nothing was started: {lines}. Agree on one and start again.")
        welcome = read_opening(packet, Welcome)
        if self.mailbox.identity is not None:
            verify_welcome(self.mailbox.identity, hello, welcome, self.mailbox.label_party)
        return welcome

    def _attach(self, welcome: Welcome) -> int:
        """Go on with a process that we know; start from zero with any other."""
        label_party = self.mailbox.label_party
        goes_on = welcome.goes_on and welcome.incarnation == self._known_process
        if not goes_on:
            self.mailbox.restart_link(label_party)
            self._known_process = welcome.incarnation
        stream = self.mailbox.links[label_party].attach(welcome.seen if goes_on else 0)
        self.mailbox.put(PeerJoined(label_party, new_process=not goes_on))
        return stream
