"""What gRPC needs for mutual TLS 1.3: both ends show a certificate of the federation's authority.

TLS proves that the other end is *some* party. Which one, and that it was not revoked, is for `Identity.check`: a
listener gives it `peer_certificate`. A dialer names whom it expects (`channel_options`), but Python's gRPC does not
show it the listener's certificate, so it must ask for a signed statement (`Identity.verify`) to notice a revocation.
"""

from cryptography.hazmat.primitives.serialization import Encoding

from cutlayer.errors import ConfigError
from cutlayer.net import TLS_13_ONLY
from cutlayer.net.trust import pem
from cutlayer.net.trust.identity import Identity, Refused

try:
    import grpc as grpc  # for the other modules of net/
except ImportError as error:
    raise ConfigError('The network needs grpcio, which is not installed: pip install "cutlayer[net]".') from error


def server_credentials(identity: Identity) -> grpc.ServerCredentials:
    """For the party that listens; a peer without a certificate of our authority does not get past the handshake."""
    key, chain, ca = _files(identity)
    return grpc.ssl_server_credentials([(key, chain)], root_certificates=ca, require_client_auth=True)


def channel_credentials(identity: Identity) -> grpc.ChannelCredentials:
    """For a party that dials."""
    key, chain, ca = _files(identity)
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=chain)


def channel_options(name: str) -> list[tuple[str, str]]:
    """Expect this party at the other end, whatever the address is that was dialled."""
    return [("grpc.ssl_target_name_override", pem.party_name(name) + pem.SUFFIX)]


def peer_certificate(context: grpc.ServicerContext) -> bytes:
    """The certificate that the dialer of a call showed, as PEM."""
    certificates = context.auth_context().get("x509_pem_cert", ())
    if len(certificates) != 1:
        raise Refused("no certificate")
    return bytes(certificates[0])


def _files(identity: Identity) -> tuple[bytes, bytes, bytes]:
    """Key, certificate and authority, from what was loaded and checked, not from files that may have changed."""
    if not TLS_13_ONLY:
        raise ConfigError("grpc was imported before cutlayer.net, so TLS 1.2 is still on: import cutlayer.net first.")
    key = pem.key_bytes(identity.key)
    return key, identity.certificate.public_bytes(Encoding.PEM), identity.ca.public_bytes(Encoding.PEM)
