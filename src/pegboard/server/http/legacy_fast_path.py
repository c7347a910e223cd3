"""LegacyFastPath: requests of the handshake era that are answered without the SDK."""

from typing import Any

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, REQUEST_CANCELLED
from mcp.shared.dispatcher import coerce_request_id

from pegboard.gateway.errors import CutOffError
from pegboard.gateway.request import ClientRequest, RpcError
from pegboard.server.http.disconnect_watcher import DisconnectWatcher
from pegboard.server.http.request import HttpRequest, accepts, is_json
from pegboard.server.http.response_stream import ResponseStream
from pegboard.server.jsonrpc import (
    RequestId,
    as_event,
    error_message,
    is_request,
    is_request_id,
    result_message,
)
from pegboard.server.legacy_session import LegacySession
from pegboard.server.tracing import with_trace

__all__ = ["LegacyFastPath"]

_QUESTIONS = ("elicitation", "sampling", "roots")
_CANCELLED = RpcError(REQUEST_CANCELLED, "Request cancelled")


class LegacyFastPath:
    """Answers requests within sessions, for clients that cannot be asked anything meanwhile.

    What they are told goes one way, as in the modern era. The SDK would start seven tasks for each.
    """

    def __init__(self, attendance: DisconnectWatcher) -> None:
        self._attendance = attendance
        self._running: dict[tuple[str, RequestId], _Stream] = {}

    def takes(self, request: HttpRequest, message: Any, conversation: LegacySession) -> bool:
        """Tell whether a message is such a request; whatever is odd about it is for the SDK."""
        client, headers = conversation.client, request.headers
        return (
            is_request(message)
            and "id" in message
            and message["method"] != "initialize"
            and not any(it in client.capabilities for it in _QUESTIONS)
            and _key(client.session, message["id"]) not in self._running
            and is_json(headers.get("content-type", ""))
            and accepts(headers.get("accept", "")) == (True, True)
        )

    async def run(
        self, request: HttpRequest, message: dict[str, Any], conversation: LegacySession
    ) -> None:
        """Answer one."""
        session, request_id = conversation.client.session, message["id"]
        stream = _Stream(request, headers=[(MCP_SESSION_ID_HEADER.encode(), session.encode())])
        exchange = ClientRequest(
            id=request_id,
            method=message["method"],
            params=with_trace(message.get("params") or {}, request.headers),
            client=conversation.client_as(request.principal),
            channel=stream,
        )
        response = b""
        self._running[_key(session, request_id)] = stream
        self._attendance.begin(stream, request)
        try:
            with stream.scope:
                try:
                    result = await conversation.respond(exchange)
                    response = result_message(request_id, result)
                except RpcError as error:
                    response = error_message(request_id, error)
            if stream.is_abandoned:
                await stream.break_off()
            else:
                unfinished = _CANCELLED if stream.is_withdrawn else CutOffError()
                await stream.end(response or error_message(request_id, unfinished))
        finally:
            self._attendance.end(stream)
            del self._running[_key(session, request_id)]

    def end_session(self, session: str) -> None:
        """Stop the work for all requests of a session that its client has ended."""
        for (owner, _), stream in list(self._running.items()):
            if owner == session:
                stream.withdraw()

    def note_cancellation(self, message: Any, session: str) -> None:
        """Stop the work for a request if this message takes it back."""
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": request_id}}:
                if is_request_id(request_id):
                    stream = self._running.get(_key(session, request_id))
                    if stream is not None:
                        stream.withdraw()
            case _:
                pass


class _Stream(ResponseStream):
    __slots__ = ("is_withdrawn",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.is_withdrawn = False

    def client_left(self) -> None:
        # In this era a line that breaks says nothing: who wants no more says so.
        self._is_over = self.is_abandoned = True

    async def end(self, message: bytes) -> None:
        """Send the answer as an event, always: some clients of this era expect nothing else."""
        async with self._lock:
            self._is_over = True
            await self._begin()
            await self._send(as_event(message), is_last=True)

    def withdraw(self) -> None:
        self.is_withdrawn = True
        self.scope.cancel()


def _key(session: str, request_id: RequestId) -> tuple[str, RequestId]:
    return session, coerce_request_id(request_id)
