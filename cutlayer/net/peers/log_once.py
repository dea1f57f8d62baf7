"""Quiet: say the same thing about the same peer once a minute, however often it happens."""

import threading
import time
from collections.abc import Callable

MINUTE = 60.0
MOST = 1000  # peers that are remembered


class Quiet:
    """A log that a stranger cannot flood."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()

    def __call__(self, peer: str, text: str) -> None:
        """Say it, unless something was said about this peer within the last minute."""
        with self._lock:
            now = self._clock()
            if now - self._last.get(peer, -MINUTE) < MINUTE:
                return
            if len(self._last) >= MOST:
                self._last = {who: when for who, when in self._last.items() if now - when < MINUTE}
                if len(self._last) >= MOST:
                    return
            self._last[peer] = now
        self._say(text)
