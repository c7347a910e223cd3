"""One HTTP request to an ASGI application, without a socket."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import anyio
from starlette.types import ASGIApp, Message

Headers = Iterable[tuple[str, str]]


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").split(";")[0]

    @property
    def error(self) -> Any:
        """The JSON-RPC error in it, with the id it is for; ``None`` if there is none."""
        if self.kind != "application/json":
            return None
        value = json.loads(self.body)
        return (value["id"], value["error"]) if "error" in value else None


async def ask(
    app: ASGIApp, body: bytes = b"", *, method: str = "POST", path: str = "/mcp", headers: Headers
) -> Answer:
    """Send a request, and wait for the whole answer."""
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": raw,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    parts: list[Message] = []
    asked = False
    gone = anyio.Event()

    async def receive() -> Message:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        parts.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            gone.set()

    with anyio.fail_after(5):
        await app(scope, receive, send)
    found = {name.decode().lower(): value.decode("latin-1") for name, value in parts[0]["headers"]}
    return Answer(parts[0]["status"], found, b"".join(it.get("body", b"") for it in parts[1:]))
