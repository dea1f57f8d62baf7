"""Desk: where online requests wait. One thread owns the session and joins what waits into one batch."""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from cutlayer.errors import CutlayerError
from cutlayer.net.peers.carrier import Regroup
from cutlayer.net.predict.label_side import Answer, Asking
from cutlayer.net.predict.which_rows import MOST
from cutlayer.training import using_threads

WAITING = 16 * MOST  # ids that may wait; more are turned away
AGAIN = 5.0  # seconds before the next attempt, when parties could not begin


class Busy(Exception):
    """Too much is waiting already."""


class Lost(Exception):
    """The parties were interrupted while they worked on it; `Desk.trouble` says why."""


@dataclass(eq=False)
class Request:
    """Ids that somebody waits for."""

    ids: Sequence[bytes] = field(repr=False)
    until: float  # nobody waits for it any more after that
    future: "Future[list[Answer]]" = field(default_factory=Future)


class Desk:
    """Takes requests from any thread, and answers them in its own."""

    def __init__(self, asking: Asking, log: Callable[[str], None]) -> None:
        self.asking, self.log = asking, log
        self.trouble = ""  # why the parties could not begin, if they could not
        self.ready = False  # they have begun
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def open(self) -> None:
        """Start to work."""
        self._thread.start()

    def close(self) -> None:
        """Stop; what waits is given up."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(5.0)

    def submit(self, ids: Sequence[bytes], seconds: float) -> "Future[list[Answer]]":
        """Ask about spelt ids, at most `MOST`; the answer, if it comes in time."""
        request = Request(ids, time.monotonic() + seconds)
        with self._changed:
            if sum(len(one.ids) for one in self._waiting) + len(ids) > WAITING:
                raise Busy
            self._waiting.append(request)
            self._changed.notify_all()
        return request.future

    def _run(self) -> None:
        with using_threads(1):
            while not self._closed:
                try:
                    self.ready = False
                    self.asking.meet()
                    self.ready, self.trouble = True, ""
                    self.log("All parties are here: ready for requests.")
                    self._work()
                except Regroup:
                    self.log("A party started again: beginning anew.")
                except Exception as error:  # whatever it is, the service goes on; only our own errors are safe to show
                    ours = isinstance(error, CutlayerError)
                    self.trouble = str(error) if ours else f"Something went wrong at the label party: {_where(error)}."
                    self.ready = False
                    self.log(f"Prediction is interrupted: {self.trouble}")
                    with self._changed:
                        self._changed.wait_for(lambda: self._closed, AGAIN)

    def _work(self) -> None:
        """Answer requests; what was under way when a party was lost is tried again while somebody waits for it."""
        carrier = self.asking.carrier
        while not self._closed:
            carrier.attend()
            requests = self._next()
            if not requests:
                continue
            try:
                answers = self.asking.predict([one for request in requests for one in request.ids])
            except Regroup:
                with self._changed:
                    self._waiting.extendleft(reversed(requests))
                raise
            except Exception:
                for request in requests:
                    with suppress(InvalidStateError):
                        request.future.set_exception(Lost())
                raise
            for request in requests:
                mine, answers = answers[: len(request.ids)], answers[len(request.ids) :]
                with suppress(InvalidStateError):  # nobody waits any more
                    request.future.set_result(mine)

    def _next(self) -> list[Request]:
        """The requests that fit into the next batch, in the order in which they came."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, 0.2)
            taken: list[Request] = []
            room = MOST
            while self._waiting and len(self._waiting[0].ids) <= room:
                request = self._waiting.popleft()
                if request.until > time.monotonic() and not request.future.cancelled():
                    taken.append(request)
                    room -= len(request.ids)
            return taken


def _where(error: Exception) -> str:
    """An error's kind and place; what it says might name an id."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {last.name}, line {last.lineno}"
