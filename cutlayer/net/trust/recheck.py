"""Recheck: a certificate that was good when a stream began may be revoked, or expire, while the stream is open."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cutlayer.net.trust.identity import Identity, Refused

INTERVAL = 2.0  # seconds
FAILURES = 2  # in a row, before a stream ends: a new revocation list may be only half copied into place


@contextmanager
def rechecked(
    identity: Identity | None,
    certificate: bytes,
    name: str,
    hang_up: Callable[[], object],
    log: Callable[[str], None],
) -> Iterator[None]:
    """Check a peer's certificate every few seconds during the block; hang up when it is no longer good."""
    done = threading.Event()

    def check(identity: Identity) -> None:
        failures = 0
        while not done.wait(INTERVAL):
            try:
                identity.check(certificate, name)
                failures = 0
            except Refused as error:
                failures += 1
                if failures == FAILURES:
                    log(f"Hung up on {name}, whose certificate is no longer good: {error.reason}.")
                    hang_up()
                    return

    if identity is not None:
        threading.Thread(target=check, args=(identity,), daemon=True).start()
    try:
        yield
    finally:
        done.set()
