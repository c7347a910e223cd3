"""FastPath: send single requests of a session without the SDK, which handles the rest."""

from contextvars import copy_context
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import anyio
from mcp import ClientSession, MCPError
from mcp.shared._otel import inject_trace_context, otel_span
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, jsonrpc_message_adapter
from opentelemetry.trace import ProxyTracerProvider, SpanKind, get_tracer_provider

from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import Era
from pegboard.upstream.messages.jsonrpc import (
    NotDirectError,
    OnMessage,
    ResumableError,
    SingleExchanges,
)
from pegboard.upstream.session.in_flight import LAST_NOTES, CallInFlight

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions

__all__ = ["FastPath"]

_SINGLE = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})
"""Methods with one response. The SDK does better with lists and long streams."""
_numbers = count(1_000_000_000)
"""Ids that no other request of this process has, to any server: a repeated or late response never
matches another request. The SDK counts from one in each session."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_MOST_TRIES = 3
_SECONDS_FOR_GOODBYE = 5.0


class FastPath:
    """Sends those requests of a session that are single exchanges."""

    def __init__(self, direct: SingleExchanges, session: ClientSession, era: Era) -> None:
        self._direct = direct
        self._session = session
        self._dispatcher: Any = session._dispatcher  # pyright: ignore[reportPrivateUsage]
        self._era = era

    def supports(self, method: str, context: CallContext) -> bool:
        """Tell whether a request can be sent on the fast path."""
        if method not in _SINGLE:
            return False
        return self._direct.hears or (context.on_progress is None and context.on_log is None)

    def close(self) -> None:
        """End all running exchanges."""
        self._direct.close()

    async def request(
        self, data: dict[str, Any], options: "CallOptions", call: CallInFlight
    ) -> dict[str, Any]:
        """Send a request that the SDK has prepared, and return its raw result.

        Raises:
            MCPError: when the server responds with an error, or not at all.
            NotDirectError: when only the SDK can send it.
        """
        method, params = data["method"], data["params"]
        number = next(_numbers)
        if "on_progress" in options:
            params.setdefault("_meta", {})["progressToken"] = number
        if isinstance(get_tracer_provider(), ProxyTracerProvider):
            # Tracing is off, and it would cost a tenth of the call.
            return await self._send(number, data, options, call)
        name = params.get("name")
        with otel_span(
            f"MCP send {method} {name}" if isinstance(name, str) else f"MCP send {method}",
            kind=SpanKind.CLIENT,
            attributes={"mcp.method.name": method, "jsonrpc.request.id": str(number)},
        ):
            inject_trace_context(params.setdefault("_meta", {}))
            return await self._send(number, data, options, call)

    async def _send(
        self, number: int, data: dict[str, Any], options: "CallOptions", call: CallInFlight
    ) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": number, **data}
        headers, hear = options.get("headers", {}), partial(self._hear, number, call)
        try:
            return await self._direct.request(message, headers, hear)
        except ResumableError as ended:
            return await self._resume(ended, headers, hear)
        except anyio.get_cancelled_exc_class():
            # Over HTTP in the modern era, closing the connection cancels the call.
            if self._era == "legacy" or not self._direct.is_ended_by_closing:
                with anyio.move_on_after(_SECONDS_FOR_GOODBYE, shield=True):
                    told = {"requestId": number, "reason": "caller cancelled"}
                    await self._dispatcher.notify("notifications/cancelled", told)
            raise

    async def _resume(
        self, ended: ResumableError, headers: dict[str, str], hear: OnMessage
    ) -> dict[str, Any]:
        tries = 0
        # The modern era cannot resume a stream.
        while self._era == "legacy" and tries < _MOST_TRIES:
            pause = _FIRST_PAUSE if ended.retry is None else ended.retry / 1000
            await anyio.sleep(min(pause, _LONGEST_PAUSE))
            try:
                return await self._direct.resume(ended.last_event, headers, hear)
            except NotDirectError:
                break
            except ResumableError as again:
                # As long as events arrive, the tries do not count.
                tries = tries + 1 if again.last_event == ended.last_event else 0
                ended = again
        raise MCPError(CONNECTION_CLOSED, "SSE stream ended without a response")

    async def _hear(self, number: int, call: CallInFlight, message: dict[str, Any]) -> None:
        params = cast("dict[str, Any]", message.get("params") or {})
        match message.get("method"):
            case "notifications/progress" if params.get("progressToken") == number:
                with anyio.move_on_after(LAST_NOTES):
                    await call.progressed_as(params)
            case "notifications/message":
                with anyio.move_on_after(LAST_NOTES):
                    await call.logged(params)
            case _:
                # A request of the server, or a notification of no call: in the context of this
                # call all the same, so that its handler knows which call it came with.
                if not self._dispatcher._running:
                    raise MCPError(CONNECTION_CLOSED, "Connection closed")
                item = SessionMessage(jsonrpc_message_adapter.validate_python(message))
                session: Any = self._session
                await self._dispatcher._dispatch(
                    item, session._on_request, session._on_notify, copy_context()
                )
