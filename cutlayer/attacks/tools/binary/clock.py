"""Clock: how much of the time that a search was given is left."""

import time


class Clock:
    """Counts down. Searches ask between rounds, so that with time left over no result depends on it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds, zero or more."""
        return max(0.0, self._end - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.left == 0
