"""Watch: a certificate that was good when a stream began may be revoked, or end, while the stream is open."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cutlayer.net.trust.identity import Identity, Refused

EVERY = 2.0  # seconds
STRIKES = 2  # in a row: whoever copies a new revocation list into place may be half way


@contextmanager
def watched(identity: Identity | None, certificate: bytes, name: str, end: Callable[[str], None]) -> Iterator[None]:
    """Look at a peer's certificate every few seconds; when it is no longer good, call `end` with the reason."""
    done = threading.Event()

    def look() -> None:
        strikes = 0
        while identity is not None and not done.wait(EVERY):
            try:
                identity.check(certificate, name)
                strikes = 0
            except Refused as error:
                strikes += 1
                if strikes == STRIKES:
                    end(error.reason)
                    return

    if identity is not None:
        threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        done.set()
