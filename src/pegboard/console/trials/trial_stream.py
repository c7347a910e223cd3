"""TrialStream: the progress of a call as server-sent events, and its result as the last one."""

from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

import anyio
import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pegboard.console.client import Notified

__all__ = ["TrialStream"]

_EVERY = 0.1
"""At most so often a page is told of progress, in seconds."""
_MOST_MESSAGES, _LONGEST = 500, 2_000
"""How many messages of the log a page gets of one call, and how long each may be."""

Work = Callable[[Notified], Awaitable[bytes]]
"""Makes the call, and returns the part of the page that shows its result."""


class TrialStream(Response):
    """Runs a call while its page listens; the call is cancelled when the page leaves."""

    def __init__(self, work: Work) -> None:
        super().__init__(media_type="text/event-stream")
        del self.headers["content-length"]
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        progress_at = 0.0
        messages = 0

        async def event(name: str, value: object) -> None:
            body = b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(value))
            await send({"type": "http.response.body", "body": body, "more_body": True})

        async def notified(method: str, params: Mapping[str, Any]) -> None:
            nonlocal progress_at, messages
            if method == "notifications/progress" and perf_counter() - progress_at >= _EVERY:
                progress_at = perf_counter()
                await event("progress", _progress(params))
            elif method == "notifications/message" and messages < _MOST_MESSAGES:
                messages += 1
                await event("log", _text(params.get("data")))

        async def cancel_when_gone(cancelled: anyio.CancelScope) -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            cancelled.cancel()

        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_when_gone, group.cancel_scope)
            shown = await self._work(notified)
            await event("result", shown.decode())
            await send({"type": "http.response.body", "body": b""})
            group.cancel_scope.cancel()


def _progress(params: Mapping[str, Any]) -> dict[str, object]:
    numbers = {
        key: it if isinstance(it := params.get(key), int | float) else None
        for key in ("progress", "total")
    }
    message: object = params.get("message")
    return {**numbers, "message": message[:_LONGEST] if isinstance(message, str) else ""}


def _text(data: object) -> str:
    try:
        text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    except (TypeError, ValueError):
        text = "?"
    return text[:_LONGEST]
