"""Listener: the label party's side. One port, which every feature party dials."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from cutlayer.errors import ConfigError, CutlayerError, ProtocolError
from cutlayer.json_types import Json
from cutlayer.net.peers.channel_settings import KEEPALIVE, STRANGER_LIMITS, require_loopback
from cutlayer.net.peers.differences import differences
from cutlayer.net.peers.events import PeerFailed, PeerJoined, PeerLost
from cutlayer.net.peers.handshake import (
    Hello,
    Welcome,
    opening_packet,
    read_opening,
    refusal_packet,
    welcome_statement,
)
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.net.peers.rate_limited_log import RateLimitedLog
from cutlayer.net.peers.stream_reader import StreamReader, cancelled_after
from cutlayer.net.trust.credentials import grpc, peer_certificate, server_credentials
from cutlayer.net.trust.failed_handshakes import FailedHandshakes, endpoint_of
from cutlayer.net.trust.identity import Refused
from cutlayer.net.trust.recheck import rechecked
from cutlayer.net.wire.packet import Packet
from cutlayer.net.wire.schema import JOIN

HELLO_SECONDS = 10.0  # for a party to say hello


Join = Callable[[StreamReader, Iterator[bytes], grpc.ServicerContext], Iterator[bytes]]


class JoinHandler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Gives every stream a reader of its own."""

    def __init__(self, join: Join) -> None:
        self._join = join

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """The handler of a new stream; there is one method, and no handler for any other."""
        if handler_call_details.method != JOIN:
            return None
        reader = StreamReader()
        return grpc.stream_stream_rpc_method_handler(partial(self._join, reader), request_deserializer=reader)


class Listener:
    """Listens, lets parties of the federation in, and attaches their streams to the mailbox's links."""

    def __init__(
        self, mailbox: Mailbox, address: str, manifest: Mapping[str, Json], log: Callable[[str], None]
    ) -> None:
        self.mailbox, self.manifest = mailbox, manifest
        self.log, self.refusal_log = log, RateLimitedLog(log)
        self._processes: dict[str, str] = {}  # the process of each peer that we talked to last
        self._lock = threading.Lock()
        self._server = grpc.server(
            ThreadPoolExecutor(2 * len(mailbox.peers) + 4), options=[*KEEPALIVE, *STRANGER_LIMITS]
        )
        self._server.add_generic_rpc_handlers((JoinHandler(self._join),))
        try:
            if mailbox.identity is None:
                require_loopback(address)
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, server_credentials(mailbox.identity))
        except RuntimeError as error:
            raise ConfigError(f"Could not listen at {address}: is the port in use, or the address not ours?") from error
        self._failures = FailedHandshakes(
            self.port, lambda address: self._report_refusal(address, "it did not prove who it is")
        )
        self._server.start()

    def close(self) -> None:
        """Stop listening and end all streams."""
        self._failures.close()
        for link in self.mailbox.links.values():
            link.close()  # ends the streams, so that the server does not have to wait for them
        self._server.stop(1.0).wait()

    def _join(self, reader: StreamReader, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """One stream of one dialer, from its hello to its end."""
        endpoint = endpoint_of(context.peer())
        self._failures.succeeded(endpoint)  # from here on, we report what is wrong with it
        try:
            with cancelled_after(HELLO_SECONDS, context.cancel):
                hello = self._read_hello(requests, context)
            if lines := differences(self.manifest, json.loads(hello.manifest), hello.name):
                self.refusal_log(hello.name, f"{hello.name} has another manifest: {'; '.join(lines)}.")
                lines = differences(json.loads(hello.manifest), self.manifest, self.mailbox.name)
                yield refusal_packet(lines).to_bytes()
                return
            stream, welcome = self._attach(hello)
        except (CutlayerError, StopIteration, grpc.RpcError) as error:
            self._report_refusal(endpoint[0], str(getattr(error, "reason", error)).rstrip(".") or "it said nothing")
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "refused")
        # Started before the welcome, so that a party that dies of it is missed.
        threading.Thread(target=self._read, args=(hello.name, stream, reader, requests, context), daemon=True).start()
        yield opening_packet(welcome).to_bytes()
        yield from self.mailbox.links[hello.name].outgoing(stream)

    def _read_hello(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Hello:
        """Whoever dialled must show a certificate of a party of the run, then a hello of that party, with a manifest.

        The certificate comes first, so that strangers cost no waiting.
        """
        name, peers = None, self.mailbox.peers
        if self.mailbox.identity is not None:
            name = self.mailbox.identity.check(peer_certificate(context))
            if name not in peers:
                raise Refused(f"{name} takes no part in this run")
        hello = read_opening(Packet.from_bytes(next(requests)), Hello)
        if hello.name != (name or hello.name) or hello.name not in peers:
            raise Refused(f"{name or 'somebody'} calls itself {hello.name[:40]!r}")
        try:
            if not isinstance(json.loads(hello.manifest), dict):
                raise ValueError
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"Expected a manifest from {hello.name}, got something else.") from error
        return hello

    def _report_refusal(self, address: str, reason: str) -> None:
        self.refusal_log(address, f"Refused {address}: {reason}.")

    def _attach(self, hello: Hello) -> tuple[int, Welcome]:
        """Go on with a process that we know; start from zero with any other."""
        mailbox, link = self.mailbox, self.mailbox.links[hello.name]
        with self._lock:
            goes_on = hello.knows == mailbox.incarnation and hello.incarnation == self._processes.get(hello.name)
            if not goes_on:
                mailbox.restart_link(hello.name)
                self._processes[hello.name] = hello.incarnation
            stream = link.attach(hello.seen if goes_on else 0)
            mailbox.put(PeerJoined(hello.name, new_process=not goes_on))  # the lock keeps it after all earlier events
        welcome = Welcome(mailbox.incarnation, goes_on, link.seen)
        if mailbox.identity is not None:
            signature = mailbox.identity.sign(welcome_statement(hello, welcome, mailbox.name))
            welcome = replace(welcome, certificate=mailbox.identity.shown.decode(), signature=signature.hex())
        return stream, welcome

    def _read(
        self, name: str, stream: int, reader: StreamReader, requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> None:
        """Read a stream to its end."""
        link, reason, identity = self.mailbox.links[name], "it closed the connection", self.mailbox.identity
        certificate = peer_certificate(context) if identity else b""
        try:
            with rechecked(identity, certificate, name, context.cancel, self.log):
                reader.read_all(requests, partial(link.receive, stream))
        except CutlayerError as error:
            self.mailbox.put(PeerFailed(name, error))
        except Exception as error:  # gRPC raises a bare Exception when a stream is cut
            reason = str(error) or "the connection was lost"
        context.cancel()
        with self._lock:  # otherwise a new stream's PeerJoined could come in between, and PeerLost last
            if link.detach(stream):
                self.mailbox.put(PeerLost(name, reason))
