"""Progress: how long work says how far it is. Whoever shows it decides how; whoever works only calls it."""

from collections.abc import Callable

#: How much is done, of how much, and a line about it.
Progress = Callable[[int, int, str], None]


def silent(done: int, total: int, text: str) -> None:
    """Show nothing."""
