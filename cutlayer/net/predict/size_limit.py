"""Size limit: a request that is larger than any real one is refused before it is parsed."""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST = 2 << 20  # bytes of a request


class SizeLimit:
    """Reads a request's body up to a limit, then passes it on whole."""

    def __init__(self, app: "ASGIApp") -> None:
        self.app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer 413 to a request that is too large."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return  # the client disconnected
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > LARGEST:
                await _refuse(send)
                return
        whole: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def receive_whole() -> "Message":
            return whole.pop() if whole else await receive()

        await self.app(scope, receive_whole, send)


async def _refuse(send: "Send") -> None:
    text = f"Expected a request of at most {LARGEST >> 20} MiB, got a larger one: ask for fewer ids at a time."
    body = json.dumps({"request_id": "", "error": text, "missing": []}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
