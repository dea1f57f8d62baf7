"""Hub: the label party's end. One port, to which every feature party dials."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from cutlayer.errors import ConfigError, CutlayerError, ProtocolError
from cutlayer.net.peers.handshake import SHOWN, Hello, Welcome, answer, differences, heard, say, word
from cutlayer.net.peers.intake import Intake
from cutlayer.net.peers.log_once import Quiet
from cutlayer.net.peers.mailbox import Broke, Gone, Joined, Post
from cutlayer.net.trust.credentials import grpc, peer_certificate, server_credentials
from cutlayer.net.trust.expiry import watched
from cutlayer.net.trust.identity import Refused
from cutlayer.net.trust.refused_callers import Door, end_of
from cutlayer.net.wire.packet import MOST, Packet
from cutlayer.net.wire.schema import JOIN

ALIVE = [  # a peer that is cut off without a word is noticed after ten seconds
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # what counts since gRPC 1.60 or so; it would wait for a minute
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MOST),
    ("grpc.max_send_message_length", MOST),
]
GUARDED = [  # what a stranger may cost
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 2_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_allowed_incoming_connections", 512),
    ("grpc.max_connection_idle_ms", 30_000),  # past TLS, as a revoked party is, and without a stream
    ("grpc.max_concurrent_streams", 4),
    ("grpc.max_metadata_size", 8_192),
    ("grpc.so_reuseport", 0),
]
FIRST_WORD = 10.0  # seconds for a party to say hello
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def refuse_far(address: str) -> None:
    """Without TLS, stay on this machine."""
    if address.rpartition(":")[0] not in LOOPBACK:
        raise ConfigError(
            f"Expected an address on this machine for --insecure, got {address}: make keys with `cutlayer keys`."
        )


class Joining(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Gives every stream an intake of its own."""

    def __init__(self, join: Callable[[Intake, Iterator[Any], Any], Iterator[bytes]]) -> None:
        self._join = join

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a new stream; there is one method, and none for whoever asks for another."""
        if handler_call_details.method != JOIN:
            return None
        intake = Intake()
        return grpc.stream_stream_rpc_method_handler(partial(self._join, intake), request_deserializer=intake)


class Hub:
    """Listens, lets parties of the federation in, and attaches their streams to the post's links."""

    def __init__(self, post: Post, address: str, manifest: Mapping[str, Any], log: Callable[[str], None]) -> None:
        self.post, self.manifest = post, manifest
        self.log, self.quiet = log, Quiet(log)
        self._processes: dict[str, str] = {}  # the process of each peer that we talked to last
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(2 * len(post.peers) + 4), options=[*ALIVE, *GUARDED])
        self._server.add_generic_rpc_handlers((Joining(self._join),))
        try:
            if post.identity is None:
                refuse_far(address)
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, server_credentials(post.identity))
        except RuntimeError as error:
            raise ConfigError(f"Could not listen at {address}: is the port in use, or the address not ours?") from error
        self._door = Door(self.port, lambda address: self._refused(address, "it did not prove who it is"))
        self._server.start()

    def close(self) -> None:
        """Stop listening and end all streams."""
        self._door.close()
        for link in self.post.links.values():
            link.close()  # which ends the streams, so that the server need not wait for them
        self._server.stop(1.0).wait()

    def _join(self, intake: Intake, requests: Iterator[Any], context: Any) -> Iterator[bytes]:
        """One stream of one dialer, from its first word to its end."""
        late = threading.Timer(FIRST_WORD, context.cancel)
        late.start()
        end = end_of(context.peer())
        self._door.knows(end)  # from here on it is for us to say what is wrong with it
        try:
            name = self._authenticate(context)
            hello: Hello = heard(Packet.from_bytes(next(requests)), Hello)
            self._agree(hello, name)
        except (CutlayerError, StopIteration, grpc.RpcError) as error:
            self._refused(end[0], str(getattr(error, "reason", error)).rstrip(".") or "it said nothing")
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "refused")
        finally:
            late.cancel()
        if lines := differences(self.manifest, json.loads(hello.manifest), hello.name):
            self.quiet(hello.name, f"{hello.name} has another manifest: {'; '.join(lines)}.")
            lines = differences(json.loads(hello.manifest), self.manifest, self.post.name)
            yield word("refused", {"differences": [line[:SHOWN] for line in lines]}).to_bytes()
            return
        try:
            stream, welcome = self._attach(hello)
        except ProtocolError as error:
            self._refused(end[0], str(error).rstrip("."))
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "refused")
        # Before the welcome, so that a party that dies of it is missed.
        threading.Thread(target=self._read, args=(hello.name, stream, intake, requests, context), daemon=True).start()
        yield say(welcome).to_bytes()
        yield from self.post.links[hello.name].outgoing(stream)

    def _authenticate(self, context: Any) -> str | None:
        """The certificate's name, which must be one of the run's. This comes first, so that others cost no waiting."""
        if self.post.identity is None:
            return None
        name = self.post.identity.check(peer_certificate(context))
        if name not in self.post.peers:
            raise Refused(f"{name} takes no part in this run")
        return name

    def _agree(self, hello: Hello, name: str | None) -> None:
        """The hello must be of whom the certificate names, with a manifest."""
        if hello.name != (name or hello.name) or hello.name not in self.post.peers:
            raise Refused(f"{name or 'somebody'} calls itself {hello.name[:40]!r}")
        try:
            if not isinstance(json.loads(hello.manifest), dict):
                raise ValueError
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"Expected a manifest from {hello.name}, got something else.") from error

    def _refused(self, address: str, why: str) -> None:
        self.quiet(address, f"Refused {address}: {why}.")

    def _attach(self, hello: Hello) -> tuple[int, Welcome]:
        """Go on with a process that we know; start afresh with any other."""
        post, link = self.post, self.post.links[hello.name]
        with self._lock:
            goes_on = hello.knows == post.incarnation and hello.incarnation == self._processes.get(hello.name)
            if not goes_on:
                post.renew(hello.name)
                self._processes[hello.name] = hello.incarnation
            stream = link.attach(hello.seen if goes_on else 0)
            post.put(Joined(hello.name, anew=not goes_on))  # after all that came before, as the lock ensures
        welcome = Welcome(post.incarnation, goes_on, link.seen)
        if post.identity is not None:
            signed = post.identity.sign(answer(hello, welcome, post.name))
            welcome = replace(welcome, certificate=post.identity.shown.decode(), signature=signed.hex())
        return stream, welcome

    def _read(self, name: str, stream: int, intake: Intake, requests: Iterator[Any], context: Any) -> None:
        """Read a stream to its end."""
        link, why, identity = self.post.links[name], "it closed the connection", self.post.identity

        def end(reason: str) -> None:
            self.log(f"Hung up on {name}, whose certificate is no longer good: {reason}.")
            context.cancel()

        try:
            with watched(identity, peer_certificate(context) if identity else b"", name, end):
                intake.drain(requests, partial(link.receive, stream))
        except CutlayerError as error:
            self.post.put(Broke(name, error))
        except Exception as error:  # gRPC raises a bare Exception when a stream is cut
            why = str(error) or "the connection was lost"
        context.cancel()
        with self._lock:  # or a new stream's Joined could come in between, and Gone last
            if link.detach(stream):
                self.post.put(Gone(name, why))
