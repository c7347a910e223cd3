"""LegacyFastPath: requests of the handshake era over HTTP, served without the SDK."""

from typing import Any

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, REQUEST_CANCELLED
from mcp.shared.dispatcher import coerce_request_id

from pegboard.gateway.errors import CutOffError
from pegboard.gateway.request import ClientRequest, RpcError
from pegboard.server.http.disconnect_watcher import DisconnectWatcher
from pegboard.server.http.request import HttpRequest, accepts, is_json
from pegboard.server.http.response_stream import ResponseStream
from pegboard.server.jsonrpc import as_event, error_message, is_request, result_message
from pegboard.server.legacy_session import LegacySession
from pegboard.server.message_limits import RequestId, is_request_id
from pegboard.server.tracing import with_trace

__all__ = ["LegacyFastPath"]

_SERVER_REQUESTS = ("elicitation", "sampling", "roots")
_CANCELLED = RpcError(REQUEST_CANCELLED, "Request cancelled")


class LegacyFastPath:
    """Serves requests within sessions, for clients without elicitation, sampling and roots.

    Messages to such clients go one way, as in the modern era. The SDK would start seven tasks for
    each request.
    """

    def __init__(self, disconnects: DisconnectWatcher) -> None:
        self._disconnects = disconnects
        self._running: dict[tuple[str, RequestId], _Stream] = {}

    def takes(self, request: HttpRequest, message: Any, legacy_session: LegacySession) -> bool:
        """Tell whether a message is such a request; unusual ones are left to the SDK."""
        client, headers = legacy_session.client, request.headers
        return (
            is_request(message)
            and "id" in message
            and message["method"] != "initialize"
            and not any(it in client.capabilities for it in _SERVER_REQUESTS)
            and _key(client.session, message["id"]) not in self._running
            and is_json(headers.get("content-type", ""))
            and accepts(headers.get("accept", "")) == (True, True)
        )

    async def run(
        self, request: HttpRequest, message: dict[str, Any], legacy_session: LegacySession
    ) -> None:
        """Serve one request."""
        session, request_id = legacy_session.client.session, message["id"]
        stream = _Stream(request, headers=[(MCP_SESSION_ID_HEADER.encode(), session.encode())])
        client_request = ClientRequest(
            id=request_id,
            method=message["method"],
            params=with_trace(message.get("params") or {}, request.headers),
            client=legacy_session.client_as(request.principal),
            channel=stream,
        )
        response = b""
        self._running[_key(session, request_id)] = stream
        self._disconnects.begin(stream, request)
        try:
            with stream.scope:
                try:
                    result = await legacy_session.respond(client_request)
                    response = result_message(request_id, result)
                except RpcError as error:
                    response = error_message(request_id, error)
            if stream.is_abandoned:
                await stream.break_off()
            else:
                unfinished = _CANCELLED if stream.is_cancelled else CutOffError()
                await stream.end(response or error_message(request_id, unfinished))
        finally:
            self._disconnects.end(stream)
            del self._running[_key(session, request_id)]

    def end_session(self, session: str) -> None:
        """Cancel all requests of a session that its client has ended."""
        for (owner, _), stream in list(self._running.items()):
            if owner == session:
                stream.cancel()

    def note_cancellation(self, message: Any, session: str) -> None:
        """Cancel a request if this message is its cancellation."""
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": request_id}}:
                if is_request_id(request_id):
                    stream = self._running.get(_key(session, request_id))
                    if stream is not None:
                        stream.cancel()
            case _:
                pass


class _Stream(ResponseStream):
    __slots__ = ("is_cancelled",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.is_cancelled = False

    def client_left(self) -> None:
        # In this era a broken connection cancels nothing: the client sends a cancellation.
        self._is_over = self.is_abandoned = True

    async def end(self, message: bytes) -> None:
        """Send the response always as an event: some clients of this era expect nothing else."""
        async with self._lock:
            self._is_over = True
            await self._begin()
            await self._send(as_event(message), is_last=True)

    def cancel(self) -> None:
        self.is_cancelled = True
        self.scope.cancel()


def _key(session: str, request_id: RequestId) -> tuple[str, RequestId]:
    return session, coerce_request_id(request_id)
