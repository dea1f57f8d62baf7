"""Channel settings: what both ends ask of gRPC, how often a dialer tries, and what a stranger may cost."""

from cutlayer.errors import ConfigError
from cutlayer.net.wire.packet import PACKET_LIMIT

KEEPALIVE = [  # a peer that is cut off without notice is missed after ten seconds
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # what counts since gRPC 1.60 or so; its default is a minute
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", PACKET_LIMIT),
    ("grpc.max_send_message_length", PACKET_LIMIT),
]
RECONNECT = [  # within one attempt; a new attempt does not inherit how long the last one waited
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # for a connection to be made
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.use_local_subchannel_pool", 1),
]
STRANGER_LIMITS = [
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 2_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_allowed_incoming_connections", 512),
    ("grpc.max_connection_idle_ms", 30_000),  # past TLS, as a revoked party is, and without a stream
    ("grpc.max_concurrent_streams", 4),
    ("grpc.max_metadata_size", 8_192),
    ("grpc.so_reuseport", 0),
]
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def require_loopback(address: str) -> None:
    """Without TLS, stay on this machine."""
    if address.rpartition(":")[0] not in LOOPBACK:
        raise ConfigError(
            f"Expected an address on this machine for --insecure, got {address}: make keys with `cutlayer keys`."
        )
