"""HTTP app: online prediction at the label party. Needs the extra `cutlayer[serve]`.

There is neither TLS nor a password here: listen on the loopback, behind whatever guards your organisation's other
services. No id is ever logged, and errors that go back do not repeat what came.
"""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from cutlayer.errors import ConfigError, CutlayerError
from cutlayer.net.peers.channel_settings import LOOPBACK
from cutlayer.net.predict.http_models import Predictions, Problem, Question
from cutlayer.net.predict.http_service import RequestError, Service
from cutlayer.net.predict.label_side import Predictor
from cutlayer.net.predict.request_queue import RequestQueue
from cutlayer.net.predict.row_request import ID_LIMIT
from cutlayer.net.predict.size_limit import SizeLimit
from cutlayer.version import __version__

DEFAULT = "127.0.0.1:8400"


def make_app(service: Service) -> FastAPI:
    """The HTTP interface."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.queue.open()
        yield
        service.queue.close()

    app = FastAPI(title="cutlayer", version=__version__, description="Joint prediction.", lifespan=lifespan)
    problems: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (400, 413, 422, 503)}

    @app.post("/predict", responses=problems)
    async def predict(question: Question, request: Request) -> Predictions:
        """Predict for ids, together with all parties, defences active. An id that a party lacks says so."""
        return Predictions(request_id=request.state.name, predictions=await service.predict(question))

    @app.get("/health", responses={503: {"model": Problem}})
    async def health() -> dict[str, str]:
        """200 when all parties are connected and have begun, 503 with the names of those missing otherwise."""
        missing = service.predictor.missing()
        if missing or not service.queue.ready:
            raise service.unavailable(missing)
        return {"status": "ready"}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Figures for Prometheus."""
        missing = service.predictor.missing()
        connected = {peer: peer not in missing for peer in service.predictor.connection.mailbox.peers}
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return PlainTextResponse(service.metrics.text(connected), media_type=kind)

    _answer_errors(app)
    app.middleware("http")(service.name_and_count)
    app.add_middleware(SizeLimit)
    return app


def _answer_errors(app: FastAPI) -> None:
    """Every error is one sentence, which never repeats what came."""

    def problem(request: Request, code: int, text: str, missing: list[str] | None = None) -> JSONResponse:
        name = getattr(request.state, "name", "")
        headers = {"Retry-After": "5"} if code == 503 else None
        return JSONResponse({"request_id": name, "error": text, "missing": missing or []}, code, headers)

    @app.exception_handler(RequestError)
    async def request_error(request: Request, error: RequestError) -> JSONResponse:
        return problem(request, error.code, error.text, error.missing)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        if "json_invalid" in {str(details["type"]) for details in error.errors()}:
            return problem(request, 400, 'Expected JSON such as {"ids": ["c17"]}, got something else.')
        text = f'Expected {{"ids": [...]}} with 1 to {ID_LIMIT} ids, texts of up to 256 characters or whole numbers'
        return problem(request, 422, f"{text}, got something else.")

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        texts = {404: "Expected /predict, /health, /metrics or /docs, got another path."}
        texts[405] = "Expected POST for /predict and GET for all else, got another method."
        return problem(request, error.status_code, texts.get(error.status_code, str(error.detail)))

    @app.exception_handler(CutlayerError)
    async def ours(request: Request, error: CutlayerError) -> JSONResponse:
        return problem(request, 500, str(error))


def serve(predictor: Predictor, log: Callable[[str], None]) -> dict[str, bool]:
    """Listen to parties and to requests until told to stop."""
    address = predictor.connection.file.serve.http
    host, _, port = (address or DEFAULT).rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) < 1 << 16:
        raise ConfigError(f"Expected http in [serve] as HOST:PORT, got {address!r}.")
    if host not in LOOPBACK:
        log(f"Whoever reaches {host}:{port} gets predictions: there is neither TLS nor a password, so guard it.")
    config = uvicorn.Config(
        make_app(Service(predictor, RequestQueue(predictor, log), log)),
        host=host.strip("[]"),
        port=int(port),
        access_log=False,
        log_level="warning",
        limit_concurrency=512,
        timeout_graceful_shutdown=5,
        server_header=False,
    )
    predictor.connection.inbox.presence.idle = True  # that a party is missing is said once, and by /health
    predictor.connection.open()
    log(f"Requests are answered at http://{host}:{port}, described at http://{host}:{port}/docs.")
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # uvicorn stops, then raises the signal once more
    try:
        uvicorn.Server(config).run()
    except SystemExit as error:
        raise ConfigError(f"Could not listen at {host}:{port}: is the port in use, or the address not ours?") from error
    return {"stopped": True}
