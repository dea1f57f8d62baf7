"""Waiting for a condition, always with a limit; nothing in the tests sleeps and hopes."""

import socket
import time

LIMIT = 60.0  # seconds for anything
POLL = 0.01


def free_port():
    """A port at which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, limit=LIMIT, what="it"):
    """Wait until a condition holds, and return its value."""
    end = time.monotonic() + limit
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"Waited {limit:.0f} seconds for {what() if callable(what) else what}.")
        time.sleep(POLL)
    return value
