"""Request queue: where online requests wait. One thread owns the session and joins what waits into one batch."""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from cutlayer.errors import CutlayerError
from cutlayer.net.peers.events import Regroup
from cutlayer.net.predict.label_side import Answer, Predictor
from cutlayer.net.predict.row_request import ID_LIMIT
from cutlayer.training import using_threads

QUEUE_LIMIT = 16 * ID_LIMIT  # ids that may wait; more are turned away
RETRY_SECONDS = 5.0  # before the next attempt, when the parties could not begin


class QueueFull(Exception):
    """Too much is waiting already."""


class RequestLost(Exception):
    """The parties were interrupted while they worked on a request; `RequestQueue.problem` says why."""


@dataclass(eq=False)
class WaitingRequest:
    """Ids for which a client waits."""

    ids: Sequence[bytes] = field(repr=False)
    deadline: float  # after which nobody waits any more
    future: "Future[list[Answer]]" = field(default_factory=Future)


class RequestQueue:
    """Takes requests from any thread, and answers them in its own."""

    def __init__(self, predictor: Predictor, log: Callable[[str], None]) -> None:
        self.predictor, self.log = predictor, log
        self.problem = ""  # why the parties could not begin, if they could not
        self.ready = False  # they have begun
        self._waiting: deque[WaitingRequest] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def open(self) -> None:
        """Start to work."""
        self._thread.start()

    def close(self) -> None:
        """Stop; requests that wait are given up."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(5.0)

    def submit(self, ids: Sequence[bytes], seconds: float) -> "Future[list[Answer]]":
        """Ask about at most `ID_LIMIT` normalised ids; the answers, if they come in time."""
        request = WaitingRequest(ids, time.monotonic() + seconds)
        with self._changed:
            if sum(len(waiting.ids) for waiting in self._waiting) + len(ids) > QUEUE_LIMIT:
                raise QueueFull
            self._waiting.append(request)
            self._changed.notify_all()
        return request.future

    def _run(self) -> None:
        with using_threads(1):
            while not self._closed:
                try:
                    self.ready = False
                    self.predictor.meet()
                    self.ready, self.problem = True, ""
                    self.log("All parties are here: ready for requests.")
                    self._work()
                except Regroup:
                    self.log("A party started again: beginning anew.")
                except Exception as error:  # the service goes on whatever happens
                    self._report(error)
                    with self._changed:
                        self._changed.wait_for(lambda: self._closed, RETRY_SECONDS)

    def _report(self, error: Exception) -> None:
        """Say what interrupted the service; only our own errors are safe to show."""
        ours = isinstance(error, CutlayerError)
        self.problem = str(error) if ours else f"Something went wrong at the label party: {_place(error)}."
        self.ready = False
        self.log(f"Prediction is interrupted: {self.problem}")

    def _work(self) -> None:
        """Answer requests; those under way when a party was lost are tried again while their clients wait."""
        while not self._closed:
            self.predictor.connection.inbox.read_pending()
            requests = self._next()
            if not requests:
                continue
            try:
                answers = self.predictor.predict([id_ for request in requests for id_ in request.ids])
            except Regroup:
                with self._changed:
                    self._waiting.extendleft(reversed(requests))
                raise
            except Exception:
                for request in requests:
                    with suppress(InvalidStateError):
                        request.future.set_exception(RequestLost())
                raise
            for request in requests:
                own, answers = answers[: len(request.ids)], answers[len(request.ids) :]
                with suppress(InvalidStateError):  # nobody waits any more
                    request.future.set_result(own)

    def _next(self) -> list[WaitingRequest]:
        """The requests that fit into the next batch, in the order in which they came."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, 0.2)
            requests: list[WaitingRequest] = []
            room = ID_LIMIT
            while self._waiting and len(self._waiting[0].ids) <= room:
                request = self._waiting.popleft()
                if request.deadline > time.monotonic() and not request.future.cancelled():
                    requests.append(request)
                    room -= len(request.ids)
            return requests


def _place(error: Exception) -> str:
    """An error's kind and place; its text might name an id."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {last.name}, line {last.lineno}"
