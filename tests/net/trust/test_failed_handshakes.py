"""The peer of a failed handshake is read from what the kernel reports about the connection."""

import pytest

from cutlayer.net.trust.failed_handshakes import REMEMBERED, FailedHandshakes, endpoint_of, remote_endpoint


@pytest.mark.parametrize(
    ("peer", "end"),
    [
        ("ipv4:10.0.0.7:50312", ("10.0.0.7", 50312)),
        ("ipv6:%5B::1%5D:50312", ("::1", 50312)),
        ("ipv6:[fe80::1%25eth0]:5", ("fe80::1%eth0", 5)),
        ("unix:", ("", 0)),
    ],
)
def test_how_grpc_spells_a_peer(peer, end):
    assert endpoint_of(peer) == end


@pytest.mark.parametrize("data", [b"", bytes(30), bytes(400)])
def test_a_kernel_that_says_something_else(data):
    assert remote_endpoint(data, 50312) is None


def test_the_oldest_endpoint_is_forgotten_first():
    failures = FailedHandshakes(1, lambda address: None)
    for number in range(REMEMBERED + 10):
        failures.succeeded(("10.0.0.7", number))
    assert len(failures._succeeded) == REMEMBERED
    failures.close()
