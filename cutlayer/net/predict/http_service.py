"""HTTP service: answers requests by way of the request queue, names them and counts them."""

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable

from fastapi import Request, Response

from cutlayer.errors import DataError
from cutlayer.net.predict.http_models import Prediction, Question, prediction_of
from cutlayer.net.predict.label_side import Predictor
from cutlayer.net.predict.request_queue import QueueFull, RequestLost, RequestQueue
from cutlayer.net.predict.row_index import normalise_ids
from cutlayer.net.predict.service_metrics import ServiceMetrics

SECONDS = 10.0  # for one request, from its arrival to its answer
REQUEST_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")  # what a client may call its request in our log


class RequestError(Exception):
    """Becomes an answer with a status code and one sentence."""

    def __init__(self, code: int, text: str, missing: list[str] | None = None) -> None:
        super().__init__(text)
        self.code, self.text, self.missing = code, text, missing or []


class Service:
    """Predicts for requests, together with all parties."""

    def __init__(
        self, predictor: Predictor, queue: RequestQueue, log: Callable[[str], None], seconds: float = SECONDS
    ) -> None:
        self.predictor, self.queue, self.log, self.seconds = predictor, queue, log, seconds
        self.metrics = ServiceMetrics()

    async def predict(self, question: Question) -> list[Prediction]:
        """Ask the parties; RequestError if they do not answer in time."""
        try:
            normalised = normalise_ids(question.ids, self.predictor.run)
        except DataError as error:
            raise RequestError(422, str(error)) from error
        if missing := self.predictor.missing():
            raise self.unavailable(missing)
        try:
            future = asyncio.wrap_future(self.queue.submit(normalised, self.seconds))
            answers = await asyncio.wait_for(future, self.seconds)
        except QueueFull as error:
            text = "Expected fewer requests at a time, got too many: try again in a second."
            raise RequestError(503, text) from error
        except (TimeoutError, RequestLost) as error:
            raise self.unavailable(self.predictor.missing()) from error
        run = self.predictor.saved.run
        predictions = [prediction_of(answer, run, id_) for answer, id_ in zip(answers, normalised, strict=True)]
        predicted = sum(prediction.predicted is not None for prediction in predictions)
        flagged = sum(prediction.flagged for prediction in predictions)
        self.metrics.count_rows(predicted, len(predictions) - predicted, flagged)
        return predictions

    def unavailable(self, missing: list[str]) -> RequestError:
        """Why nothing can be predicted now, with the parties that are missing."""
        if missing:
            return RequestError(503, f"Expected all parties, missing {', '.join(missing)}: try again later.", missing)
        late = f"Expected an answer of all parties within {self.seconds:.0f} seconds, got none."
        return RequestError(503, self.queue.problem or late)

    async def name_and_count(self, request: Request, handle: Callable[[Request], Awaitable[Response]]) -> Response:
        """Name a request, count it, and log one line about its outcome."""
        began = time.perf_counter()
        given = request.headers.get("x-request-id", "")
        request.state.name = name = given if REQUEST_NAME.fullmatch(given) else secrets.token_hex(8)
        response = await handle(request)
        response.headers["X-Request-ID"] = name
        if request.url.path == "/predict":
            seconds = time.perf_counter() - began
            self.metrics.count_request(response.status_code, seconds)
            self.log(f"predict {response.status_code} {1000 * seconds:.0f} ms {name}")
        return response
