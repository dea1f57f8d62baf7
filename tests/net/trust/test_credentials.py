"""Mutual TLS 1.3 through gRPC, tried from outside with Python's own ssl as the stranger."""

import socket
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from cutlayer.errors import ConfigError
from cutlayer.net.trust.authority import Authority
from cutlayer.net.trust.credentials import channel_credentials, channel_options, peer_certificate, server_credentials
from cutlayer.net.trust.identity import Identity, Refused, request
from tests.helpers.certificates import give_list, join

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # and empty settings
SECONDS = 10


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    year_ago = datetime.now(UTC) - timedelta(days=365)
    return Authority.create(tmp_path_factory.mktemp("federation") / "authority", "ours", now=year_ago)


@pytest.fixture(scope="module")
def folders(authority):
    return {name: join(authority, authority.folder.parent / name, name) for name in ("bank", "shop", "gone")}


@pytest.fixture(scope="module")
def port(folders):
    """The bank listens and answers with the name of its caller."""
    bank = Identity.load(folders["bank"])

    def who(_, context):
        try:
            return bank.check(peer_certificate(context)).encode()
        except Refused as error:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))

    server = grpc.server(ThreadPoolExecutor(2))
    handlers = {"Who": grpc.unary_unary_rpc_method_handler(who)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", handlers),))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(bank))
    server.start()
    yield port
    server.stop(0).wait()


def call(port, folder, expected="bank"):
    options = channel_options(expected)
    with grpc.secure_channel(f"127.0.0.1:{port}", channel_credentials(Identity.load(folder)), options) as channel:
        return channel.unary_unary("/test/Who")(b"", timeout=SECONDS)


def handshake(port, authority, folder=None, version=ssl.TLSVersion.TLSv1_3, ciphers=None):
    """Whether a stranger gets an HTTP/2 answer, which comes only after the whole handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.folder / "ca.pem")
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    if ciphers:
        context.set_ciphers(ciphers)
    if folder:
        context.load_cert_chain(folder / "party.pem", folder / "party.key")
    try:
        with (
            socket.create_connection(("127.0.0.1", port), SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="bank.cutlayer") as wrapped,
        ):
            wrapped.sendall(PREFACE)
            answer = wrapped.recv(9)
            assert not answer or (answer[3] == 4 and wrapped.version() == "TLSv1.3")  # a SETTINGS frame
            return bool(answer)
    except (ssl.SSLError, ConnectionError):
        return False


def test_a_party_calls_and_is_known_by_name(port, folders):
    assert call(port, folders["shop"]) == b"shop"


def test_tls_13_with_a_certificate_gets_in(port, authority, folders):
    assert handshake(port, authority, folders["shop"])


@pytest.mark.parametrize("ciphers", [None, "ALL:@SECLEVEL=0", "ECDHE-ECDSA-AES128-GCM-SHA256"])
def test_tls_12_does_not(port, authority, folders, ciphers):
    assert not handshake(port, authority, folders["shop"], ssl.TLSVersion.TLSv1_2, ciphers)
    assert call(port, folders["shop"]) == b"shop"


def test_without_a_certificate(port, authority, folders):
    assert not handshake(port, authority)
    assert call(port, folders["shop"]) == b"shop"


def test_with_another_authoritys_certificate(port, authority, folders, tmp_path):
    other = Authority.create(tmp_path / "authority", "ours")
    stranger = join(other, tmp_path / "shop", "shop")
    assert not handshake(port, authority, stranger)
    assert call(port, folders["shop"]) == b"shop"


def test_with_an_expired_or_future_certificate(port, authority, folders, tmp_path):
    for name, days in (("late", -100), ("early", 100)):
        now = datetime.now(UTC) + timedelta(days=days)
        csr, _ = request(tmp_path / name, name)
        authority.sign(csr, days=10, now=now)
        (tmp_path / name / "party.pem").write_bytes((authority.folder / f"{name}.pem").read_bytes())
        assert not handshake(port, authority, tmp_path / name)
    assert call(port, folders["shop"]) == b"shop"


@pytest.mark.parametrize("garbage", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"A" * 5000, PREFACE])
def test_garbage(port, folders, garbage):
    with socket.create_connection(("127.0.0.1", port), SECONDS) as plain:
        plain.sendall(garbage)
        plain.shutdown(socket.SHUT_WR)
        try:
            answer = plain.recv(1 << 16)
        except ConnectionError:
            answer = b""
    assert len(answer) <= 7  # nothing, or one TLS alert
    assert call(port, folders["shop"]) == b"shop"


def test_a_revoked_party_passes_tls_and_is_refused_by_name(port, authority, folders):
    assert call(port, folders["gone"]) == b"gone"
    authority.revoke("gone")
    give_list(authority, folders["bank"])
    with pytest.raises(grpc.RpcError) as caught:
        call(port, folders["gone"])
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert caught.value.details() == "The certificate was refused."
    assert call(port, folders["shop"]) == b"shop"


def test_the_dialer_expects_a_name(port, folders):
    with pytest.raises(grpc.RpcError) as caught:
        call(port, folders["shop"], expected="gone")
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(("version", "agreed"), [("TLSv1_2", False), ("TLSv1_3", True)])
def test_the_dialer_refuses_tls_12_too(folders, version, agreed):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion[version]
    context.load_cert_chain(folders["bank"] / "party.pem", folders["bank"] / "party.key")
    context.set_alpn_protocols(["h2"])
    seen = []

    def serve(listener):
        try:
            plain, _ = listener.accept()
            plain.settimeout(SECONDS)
            with plain, context.wrap_socket(plain, server_side=True) as wrapped:
                seen.append(wrapped.recv(4) == PREFACE[:4])
        except OSError:
            seen.append(False)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(SECONDS)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        with pytest.raises(grpc.RpcError):
            call(listener.getsockname()[1], folders["shop"])
        thread.join()
    assert seen == [agreed]


def test_no_certificate_in_a_call():
    class Context:
        def auth_context(self):
            return {}

    with pytest.raises(Refused):
        peer_certificate(Context())


def test_grpc_that_was_imported_too_early_is_noticed(folders):
    code = (
        "import os; os.environ.pop('GRPC_SSL_CIPHER_SUITES', None); import grpc\n"
        "from pathlib import Path; from cutlayer.net.trust.credentials import server_credentials\n"
        "from cutlayer.net.trust.identity import Identity; import sys\n"
        "server_credentials(Identity.load(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(folders["bank"])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and ConfigError.__name__ in done.stderr and "import cutlayer.net first" in done.stderr
