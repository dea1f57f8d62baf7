"""Rate-limited log: one line a minute about each peer, however often something happens."""

import threading
import time
from collections.abc import Callable

MINUTE = 60.0
PEER_LIMIT = 1000  # peers that are remembered


class RateLimitedLog:
    """A log that a stranger cannot flood."""

    def __init__(self, log: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()

    def __call__(self, peer: str, text: str) -> None:
        """Log a line, unless there was one about this peer within the last minute."""
        with self._lock:
            now = self._clock()
            if now - self._last.get(peer, -MINUTE) < MINUTE:
                return
            if len(self._last) >= PEER_LIMIT:
                self._last = {name: moment for name, moment in self._last.items() if now - moment < MINUTE}
                if len(self._last) >= PEER_LIMIT:
                    return
            self._last[peer] = now
        self._log(text)
