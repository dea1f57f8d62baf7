"""Web: online prediction at the label party, over HTTP. Needs the extra `cutlayer[serve]`.

There is neither TLS nor a password here: listen on the loopback, behind whatever guards the other services of the
house. No id is ever logged, and errors that go back do not repeat what came.
"""

import asyncio
import re
import secrets
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints
from starlette.exceptions import HTTPException

from cutlayer.errors import ConfigError, CutlayerError, DataError
from cutlayer.net.peers.hub import LOOPBACK
from cutlayer.net.predict.figures import Figures
from cutlayer.net.predict.id_file import NO_ID, numbers
from cutlayer.net.predict.label_side import Answer, Asking
from cutlayer.net.predict.request_queue import Busy, Desk, Lost
from cutlayer.net.predict.row_index import spell
from cutlayer.net.predict.size_limit import Bounded
from cutlayer.net.predict.trained import Trained
from cutlayer.net.predict.which_rows import MOST
from cutlayer.version import __version__

DEFAULT = "127.0.0.1:8400"
SECONDS = 10.0  # for one request, from its arrival to its answer
SANE = re.compile(r"[A-Za-z0-9._-]{1,64}")  # what a request may be called in a log
Id = Annotated[str, StringConstraints(min_length=1, max_length=256)] | StrictInt


class Question(BaseModel):
    """Whom to predict for."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"ids": ["c17", "c23"]}]})
    ids: Annotated[list[Id], Field(min_length=1, max_length=MOST)]


class Prediction(BaseModel):
    """What came of one id."""

    predicted: str | float | None
    probabilities: dict[str, float] | None = None
    missing_at: list[str] = []
    flagged: bool = False


class Predictions(BaseModel):
    """In the order of the ids."""

    request_id: str
    predictions: list[Prediction]


class Problem(BaseModel):
    """What was expected, what came, what to do; and which parties are missing, if some are."""

    request_id: str
    error: str
    missing: list[str] = []


class Trouble(Exception):
    """Becomes an answer with a status code and one sentence."""

    def __init__(self, code: int, text: str, missing: list[str] | None = None) -> None:
        super().__init__(text)
        self.code, self.text, self.missing = code, text, missing or []


def prediction(answer: Answer, trained: Trained, spelt: bytes) -> Prediction:
    """An answer in words."""
    if answer.outputs is None:
        return Prediction(predicted=None, missing_at=list(answer.missing) if spelt else [NO_ID])
    made = numbers(answer, trained)
    if not trained.names:
        return Prediction(predicted=made[0], flagged=answer.flagged)
    named = dict(zip(trained.names, made, strict=True))
    return Prediction(predicted=max(named, key=lambda one: named[one]), probabilities=named, flagged=answer.flagged)


class Service:
    """Answers requests by way of the desk, and counts them."""

    def __init__(self, asking: Asking, desk: Desk, log: Callable[[str], None], seconds: float = SECONDS) -> None:
        self.asking, self.desk, self.log, self.seconds = asking, desk, log, seconds
        self.figures = Figures()

    async def predict(self, question: Question) -> list[Prediction]:
        """Ask the parties; Trouble if they do not answer in time."""
        try:
            spelt = spell(question.ids, self.asking.run_)
        except DataError as error:
            raise Trouble(422, str(error)) from error
        if missing := self.asking.missing():
            raise self.unready(missing)
        try:
            future = asyncio.wrap_future(self.desk.submit(spelt, self.seconds))
            answers = await asyncio.wait_for(future, self.seconds)
        except Busy as error:
            raise Trouble(503, "Expected fewer requests at a time, got too many: try again in a second.") from error
        except (TimeoutError, Lost) as error:
            raise self.unready(self.asking.missing()) from error
        made = [prediction(*one) for one in zip(answers, [self.asking.trained] * len(spelt), spelt, strict=True)]
        known = sum(one.predicted is not None for one in made)
        self.figures.rows(known, len(made) - known, sum(one.flagged for one in made))
        return made

    def unready(self, missing: list[str]) -> Trouble:
        """Why nothing can be predicted now, with the parties that are missing."""
        if missing:
            return Trouble(503, f"Expected all parties, missing {', '.join(missing)}: try again later.", missing)
        why = self.desk.trouble or f"Expected an answer of all parties within {self.seconds:.0f} seconds, got none."
        return Trouble(503, why)

    async def around(self, request: Request, then: Callable[[Request], Awaitable[Response]]) -> Response:
        """Name the request, count it, and say in one line what came of it."""
        began = time.perf_counter()
        named = request.headers.get("x-request-id", "")
        request.state.name = name = named if SANE.fullmatch(named) else secrets.token_hex(8)
        response = await then(request)
        response.headers["X-Request-ID"] = name
        if request.url.path == "/predict":
            seconds = time.perf_counter() - began
            self.figures.request(response.status_code, seconds)
            self.log(f"predict {response.status_code} {1000 * seconds:.0f} ms {name}")
        return response


def app_of(service: Service) -> FastAPI:
    """The HTTP interface."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        service.desk.open()
        yield
        service.desk.close()

    app = FastAPI(title="cutlayer", version=__version__, description="Joint prediction.", lifespan=life)
    problems: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (400, 413, 422, 503)}

    @app.post("/predict", responses=problems)
    async def predict(question: Question, request: Request) -> Predictions:
        """Predict for ids, together with all parties, defences active. An id that a party lacks says so."""
        return Predictions(request_id=request.state.name, predictions=await service.predict(question))

    @app.get("/health", responses={503: {"model": Problem}})
    async def health() -> dict[str, str]:
        """200 when all parties are connected and have begun, 503 with the names of those missing otherwise."""
        missing = service.asking.missing()
        if missing or not service.desk.ready:
            raise service.unready(missing)
        return {"status": "ready"}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Figures for Prometheus."""
        missing = service.asking.missing()
        connected = {peer: peer not in missing for peer in service.asking.post.peers}
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return PlainTextResponse(service.figures.text(connected), media_type=kind)

    _say_problems(app)
    app.middleware("http")(service.around)
    app.add_middleware(Bounded)
    return app


def _say_problems(app: FastAPI) -> None:
    """Every error is one sentence, which never repeats what came."""

    def problem(request: Request, code: int, text: str, missing: list[str] | None = None) -> JSONResponse:
        name = getattr(request.state, "name", "")
        again = {"Retry-After": "5"} if code == 503 else None
        return JSONResponse({"request_id": name, "error": text, "missing": missing or []}, code, again)

    @app.exception_handler(Trouble)
    async def trouble(request: Request, error: Trouble) -> JSONResponse:
        return problem(request, error.code, error.text, error.missing)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        kinds = {str(one["type"]) for one in error.errors()}
        if "json_invalid" in kinds:
            return problem(request, 400, 'Expected JSON such as {"ids": ["c17"]}, got something else.')
        text = f'Expected {{"ids": [...]}} with 1 to {MOST} ids, texts of up to 256 characters or whole numbers'
        return problem(request, 422, f"{text}, got something else.")

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        texts = {404: "Expected /predict, /health, /metrics or /docs, got another path."}
        texts[405] = "Expected POST for /predict and GET for all else, got another method."
        return problem(request, error.status_code, texts.get(error.status_code, str(error.detail)))

    @app.exception_handler(CutlayerError)
    async def ours(request: Request, error: CutlayerError) -> JSONResponse:
        return problem(request, 500, str(error))


def serve(asking: Asking, log: Callable[[str], None]) -> dict[str, Any]:
    """Listen to parties and to requests until told to stop."""
    host, _, port = (asking.file.serve.http or DEFAULT).rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) < 1 << 16:
        raise ConfigError(f"Expected http in [serve] as HOST:PORT, got {asking.file.serve.http!r}.")
    if host not in LOOPBACK:
        log(f"Whoever reaches {host}:{port} gets predictions: there is neither TLS nor a password, so guard it.")
    service = Service(asking, Desk(asking, log), log)
    config = uvicorn.Config(
        app_of(service),
        host=host.strip("[]"),
        port=int(port),
        access_log=False,
        log_level="warning",
        limit_concurrency=512,
        timeout_graceful_shutdown=5,
        server_header=False,
    )
    asking.carrier.idle = True  # that a party is missing is said once, and by /health
    asking.connect()
    log(f"Requests are answered at http://{host}:{port}, described at http://{host}:{port}/docs.")
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # uvicorn stops, then raises the signal once more
    try:
        uvicorn.Server(config).run()
    except SystemExit as error:
        raise ConfigError(f"Could not listen at {host}:{port}: is the port in use, or the address not ours?") from error
    finally:
        asking.close()
    return {"stopped": True}
