"""Streamable HTTP of the modern era: one POST, one request, one response, no session."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_NAME_HEADER,
    MCP_PARAM_HEADER_PREFIX,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    decode_header_value,
    find_duplicated_routing_header,
    find_invalid_x_mcp_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import HEADER_MISMATCH, INVALID_REQUEST

from pegboard.gateway.catalog.group_addresses import NoGroupError
from pegboard.gateway.errors import CutOffError
from pegboard.gateway.request import ClientRequest, OnTool, RpcError
from pegboard.gateway.scopes import MissingScopeError
from pegboard.model import Tool
from pegboard.server.http.authentication import HttpAuthenticator
from pegboard.server.http.disconnect_watcher import DisconnectWatcher
from pegboard.server.http.request import (
    LARGE,
    Header,
    HttpRequest,
    Limits,
    accepts,
    is_json,
    retry_after,
    too_much_unread,
)
from pegboard.server.http.response_stream import ResponseStream
from pegboard.server.jsonrpc import error_message, is_request, not_a_request, result_message
from pegboard.server.message_limits import RequestId, read_json
from pegboard.server.modern_era import client_of, listening_params, refusal_of
from pegboard.server.request_pipeline import RATE_LIMITED, RequestPipeline
from pegboard.server.tracing import with_trace

__all__ = ["ParameterHeaders", "StatelessHttp"]

_PREFIX = MCP_PARAM_HEADER_PREFIX.lower()
_MOST_CACHED = 4096


_STATUSES = {**ERROR_CODE_HTTP_STATUS, RATE_LIMITED: 429}
_LISTEN = "subscriptions/listen"
_OF_TASKS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})


class ParameterHeaders:
    """Checks the ``Mcp-Param-*`` headers of calls; caches which tools ask for none."""

    def __init__(self) -> None:
        # The tool is kept too, so that no other object gets its id.
        self._known: dict[int, tuple[Tool, bool]] = {}

    def check_of(self, params: Mapping[str, Any], headers: Mapping[str, str]) -> OnTool | None:
        """Return what compares the headers of a call with its arguments, once its tool is found.

        It raises `RpcError` when they differ. ``None`` if there is nothing to compare.
        """
        arguments: Any = params.get("arguments") or {}
        if not isinstance(arguments, dict):
            return None  # refused later, with a better message
        if not arguments and not any(header.startswith(_PREFIX) for header in headers):
            return None
        given = cast("dict[str, Any]", arguments)

        def check(tool: Tool) -> None:
            if self._asks_for_headers(tool):
                rejection = validate_mcp_param_headers(tool.input_schema, given, headers)
                if rejection is not None:
                    raise refusal_of(rejection)

        return check

    def _asks_for_headers(self, tool: Tool) -> bool:
        known = self._known.get(id(tool))
        if known is not None and known[0] is tool:
            return known[1]
        schema = tool.input_schema
        asks = find_invalid_x_mcp_header(schema) is None and bool(x_mcp_header_map(schema))
        if len(self._known) >= _MOST_CACHED:
            self._known.clear()
        self._known[id(tool)] = (tool, asks)
        return asks


class StatelessHttp:
    """Serves requests of the modern era; it keeps no state between them."""

    def __init__(
        self,
        pipeline: RequestPipeline,
        *,
        authenticator: HttpAuthenticator,
        disconnects: DisconnectWatcher,
        limits: Limits,
    ) -> None:
        self._pipeline = pipeline
        self._authenticator = authenticator
        self._disconnects = disconnects
        self._limits = limits
        self._parameter_headers = ParameterHeaders()

    async def serve(self, request: HttpRequest) -> None:
        """Serve a request.

        Raises:
            BodyTooLargeError: when its body is too large.
            ClientGoneError: when its client has disconnected.
        """
        stream = ResponseStream(request)
        client_request = await self._read(request, stream)
        if client_request is None:
            return
        status, response = 200, b""
        headers: Sequence[Header] = ()
        self._disconnects.begin(stream, request)
        try:
            with stream.scope:
                try:
                    # The result itself is not kept while the response waits for the client.
                    response = result_message(
                        client_request.id, await self._pipeline.respond(client_request)
                    )
                    if len(response) > LARGE and not request.may_wait(len(response)):
                        raise too_much_unread(len(response))
                except RpcError as error:
                    # A load balancer may send a request elsewhere that we did not begin.
                    is_begun = self._pipeline.gateway.is_ready or isinstance(error, CutOffError)
                    status = _status(error) if is_begun else 503
                    response = error_message(client_request.id, error)
                    headers = self._headers(error)
            if stream.is_abandoned:
                await stream.break_off()
            else:
                response = response or error_message(client_request.id, CutOffError())
                await stream.finish(status, response, headers=headers)
        finally:
            self._disconnects.end(stream)

    async def _read(self, request: HttpRequest, stream: ResponseStream) -> ClientRequest | None:
        """Return what a client asks for; ``None`` if the request has its response already."""
        if not await _has_form(request):
            return None
        body = await request.body(at_most=self._limits.body)
        request_id: RequestId | None = None
        try:
            message = read_json(body)
            if not is_request(message):
                raise not_a_request()
            if "id" in message:
                request_id = message["id"]
                return self._client_request(request, message, stream)
            await self._accept_notification(request)
        except RpcError as error:
            await request.refuse(_status(error), error, request_id=request_id)
        return None

    async def _accept_notification(self, request: HttpRequest) -> None:
        # This era has no notifications for a server, but clients send some all the same.
        requested = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, "")
        rejection = unsupported_protocol_version_rejection(requested)
        if rejection is not None:
            raise refusal_of(rejection)
        await request.respond(202)

    def _client_request(
        self, request: HttpRequest, message: dict[str, Any], stream: ResponseStream
    ) -> ClientRequest:
        headers = request.headers
        if len(headers) != len(request.scope["headers"]):
            self._refuse_duplicates(request)
        route = classify_inbound_request(message, headers=headers)
        if isinstance(route, InboundLadderRejection):
            raise refusal_of(route)
        client = client_of(route, principal=request.principal, face=request.face)
        params: Mapping[str, Any] = message["params"]
        if "traceparent" in headers:
            params = with_trace(params, headers)
        method, on_tool = message["method"], None
        if method == _LISTEN:
            params = listening_params(params)
        elif method == "tools/call":
            on_tool = self._parameter_headers.check_of(params, headers)
        elif method in _OF_TASKS:
            _check_task_header(params, headers)
        return ClientRequest(
            id=message["id"],
            method=method,
            params=params,
            client=client,
            channel=stream,
            on_tool=on_tool,
        )

    def _refuse_duplicates(self, request: HttpRequest) -> None:
        pairs = ((name.decode("latin-1"), "") for name, _ in request.scope["headers"])
        name = find_duplicated_routing_header(pairs)
        if name is not None:
            raise RpcError(HEADER_MISMATCH, f"{name} header appears more than once")

    def _headers(self, error: RpcError) -> Sequence[Header]:
        if isinstance(error, MissingScopeError):
            return self._authenticator.wants_scope(error.scope)
        match error.data:
            case {"retryAfter": float() as seconds} if error.code == RATE_LIMITED:
                return (retry_after(seconds),)
            case _:
                return ()


async def _has_form(request: HttpRequest) -> bool:
    """Check the method and the types of a request; refuse another one, and return false."""
    if request.method != "POST":
        await request.respond(405, headers=[(b"allow", b"POST")])
    elif not is_json(request.headers.get("content-type", "")):
        await request.refuse(400, RpcError(INVALID_REQUEST, "Invalid Content-Type header"))
    elif accepts(request.headers.get("accept", "")) != (True, True):
        words = "Not Acceptable: Client must accept both application/json and text/event-stream"
        await request.refuse(406, RpcError(INVALID_REQUEST, words))
    else:
        return True
    return False


def _check_task_header(params: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """Compare the header that names a task with the task of the request.

    Raises:
        RpcError: when they differ, or there is no header.
    """
    task: object = params.get("taskId")
    if task is not None and decode_header_value(headers.get(MCP_NAME_HEADER)) != task:
        words = f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
        raise RpcError(HEADER_MISMATCH, words)


def _status(error: RpcError) -> int:
    if isinstance(error, NoGroupError):
        return 404
    return 403 if isinstance(error, MissingScopeError) else _STATUSES.get(error.code, 200)
