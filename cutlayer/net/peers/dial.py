"""Dial: a feature party's end. It dials the label party and dials again whenever the stream breaks."""

import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from cutlayer.errors import CutlayerError, ProtocolError, RunError
from cutlayer.net.peers.handshake import Hello, Welcome, heard, printable, proven, say
from cutlayer.net.peers.hub import ALIVE, refuse_far
from cutlayer.net.peers.intake import Intake
from cutlayer.net.peers.mailbox import Broke, Gone, Joined, Post
from cutlayer.net.trust.credentials import channel_credentials, channel_options, grpc
from cutlayer.net.trust.expiry import watched
from cutlayer.net.wire.packet import Packet
from cutlayer.net.wire.schema import JOIN

CONNECT = 10.0  # seconds for one attempt
ANEW = [  # within an attempt; and a new one does not take over how long the last one waited
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # for a connection to be made
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.use_local_subchannel_pool", 1),
]
SLOWEST = 5.0  # seconds between attempts, at most


class Refusal(ProtocolError):
    """The label party will not start with us; trying again would not help."""


class Dial:
    """Keeps a stream to the label party for as long as this process lives."""

    def __init__(self, post: Post, address: str, manifest: Mapping[str, Any], log: Callable[[str], None]) -> None:
        self.post, self.address, self.log = post, address, log
        self.manifest = json.dumps(manifest)
        self._knows = ""
        self._closed = threading.Event()
        self._channel: Any = None
        if post.identity is None:
            refuse_far(address)
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hang up."""
        self._closed.set()
        if self._channel is not None:
            self._channel.close()

    def _keep(self) -> None:
        """Dial until told to stop, more slowly with every failure."""
        wait = 0.1
        while not self._closed.is_set():
            met = False
            try:
                self._channel = self._open()
                met = self._talk(self._channel)
            except CutlayerError as error:
                self.post.put(Broke(self.post.label_party, error))
                return
            except Exception as error:  # else this thread would end unheard, and the party wait for ever
                if self._closed.is_set():
                    return
                broken = RunError(f"Lost {self.post.label_party} for a reason of our own: {error!r}.")
                self.post.put(Broke(self.post.label_party, broken))
                return
            finally:
                if self._channel is not None:
                    self._channel.close()
            wait = 0.1 if met else min(SLOWEST, wait * 2)
            self._closed.wait(wait * random.uniform(0.5, 1.0))

    def _open(self) -> Any:
        post = self.post
        if post.identity is None:
            return grpc.insecure_channel(self.address, options=[*ALIVE, *ANEW])
        options = [*ALIVE, *ANEW, *channel_options(post.label_party)]
        return grpc.secure_channel(self.address, channel_credentials(post.identity), options=options)

    def _talk(self, channel: Any) -> bool:
        """One stream, from hello to its end; whether the label party answered at all."""
        post, link = self.post, self.post.links[self.post.label_party]
        hello = Hello(post.name, post.incarnation, self._knows, link.seen if self._knows else 0, self.manifest)
        attached: threading.Event = threading.Event()
        ended: threading.Event = threading.Event()
        streams: list[int] = []

        first, intake = say(hello).to_bytes(), Intake()

        def outgoing() -> Iterator[bytes]:
            yield first
            attached.wait()
            if not ended.is_set():
                yield from link.outgoing(streams[0])

        why, met, stream = "the connection was lost", False, -1
        try:
            grpc.channel_ready_future(channel).result(CONNECT)
            answers = channel.stream_stream(JOIN, response_deserializer=intake)(outgoing())
            late = threading.Timer(CONNECT, answers.cancel)
            late.start()
            try:
                welcome = self._welcomed(hello, Packet.from_bytes(next(answers)))
            finally:
                late.cancel()
            goes_on = welcome.goes_on and welcome.incarnation == self._knows
            if not goes_on:
                post.renew(post.label_party)
                self._knows = welcome.incarnation
            stream = link.attach(welcome.seen if goes_on else 0)
            streams.append(stream)
            met = True
            post.put(Joined(post.label_party, anew=not goes_on))
            attached.set()

            def end(reason: str) -> None:
                self.log(f"Hung up on {post.label_party}, whose certificate is no longer good: {reason}.")
                answers.cancel()

            with watched(post.identity, welcome.certificate.encode(), post.label_party, end):
                intake.drain(answers, partial(link.receive, stream))
        except (grpc.RpcError, grpc.FutureTimeoutError, StopIteration, ValueError) as error:
            code = error.code() if isinstance(error, grpc.Call) else None
            if code is grpc.StatusCode.PERMISSION_DENIED:
                raise Refusal(f"{post.label_party} refused us: it may not know our name or our certificate.") from error
            why = str(error.details()) if isinstance(error, grpc.Call) else why
        finally:
            ended.set()
            attached.set()
            if link.detach(stream) and not self._closed.is_set():
                post.put(Gone(post.label_party, why))
        return met

    def _welcomed(self, hello: Hello, packet: Packet) -> Welcome:
        note = packet.frame.note
        if note.topic == "refused":
            lines = _lines(note.text)
            raise Refusal(
                f"The manifests differ, so nothing was started: {'; '.join(lines)}. Agree on one and start again."
            )
        welcome: Welcome = heard(packet, Welcome)
        if self.post.identity is not None:
            proven(self.post.identity, hello, welcome, self.post.label_party)
        return welcome


def _lines(text: str) -> list[str]:
    """The differences that a refusal names, as far as they are text."""
    try:
        return [printable(line) for line in json.loads(text)["differences"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ["the label party does not say where"]
