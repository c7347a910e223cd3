"""The modern era over HTTP: one POST, one request, one answer."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PARAM_HEADER_PREFIX,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    find_invalid_x_mcp_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import HEADER_MISMATCH, INVALID_REQUEST

from pegboard.gateway.catalog.groups import NoGroupError
from pegboard.gateway.errors import CutOffError
from pegboard.gateway.request import ClientRequest, RpcError
from pegboard.gateway.scopes import MissingScopeError
from pegboard.server.gateway_port import GatewayPort
from pegboard.server.http.authentication import HttpAuthenticator
from pegboard.server.http.disconnect_watcher import DisconnectWatcher
from pegboard.server.http.request import Header, HttpRequest, Limits, accepts, is_json
from pegboard.server.http.response_stream import ResponseStream
from pegboard.server.jsonrpc import (
    RequestId,
    error_message,
    is_request,
    not_a_request,
    read_json,
    result_message,
)
from pegboard.server.modern_era import client_of, listening_params, refusal_of, respond_modern
from pegboard.server.request_pipeline import RATE_LIMITED, RequestPipeline
from pegboard.server.tracing import with_trace

__all__ = ["ParameterHeaders", "StatelessHttp"]

_PREFIX = MCP_PARAM_HEADER_PREFIX.lower()
_REMEMBERED = 4096


class ParameterHeaders:
    """Checks the ``Mcp-Param-*`` headers of calls; remembers which schemas ask for none."""

    def __init__(self, gateway: GatewayPort) -> None:
        self._gateway = gateway
        # The schema is kept beside the answer, so that its id stays its own.
        self._known: dict[int, tuple[object, bool]] = {}

    def check(self, exchange: ClientRequest, headers: Mapping[str, str]) -> None:
        """Compare the headers of a call with its arguments.

        Raises:
            RpcError: when they differ; but of a tool that may not be called this is not told.
        """
        params, client = exchange.params, exchange.client
        name = params.get("name")
        arguments: Any = params.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return  # refused later, with better words
        if not arguments and not any(header.startswith(_PREFIX) for header in headers):
            return
        schema = self._gateway.input_schema(client, name)
        if schema is None or not self._asks_for_headers(schema):
            return
        given = cast("dict[str, Any]", arguments)
        rejection = validate_mcp_param_headers(schema, given, headers)
        if rejection is not None and self._gateway.missing_scope(exchange) is None:
            raise refusal_of(rejection)

    def _asks_for_headers(self, schema: Mapping[str, Any]) -> bool:
        known = self._known.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        asks = find_invalid_x_mcp_header(schema) is None and bool(x_mcp_header_map(schema))
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[id(schema)] = (schema, asks)
        return asks


_STATUSES = {**ERROR_CODE_HTTP_STATUS, RATE_LIMITED: 429}
_LISTEN = "subscriptions/listen"


class StatelessHttp:
    """Answers requests of the modern era; nothing stays behind when one is answered."""

    def __init__(
        self,
        desk: RequestPipeline,
        *,
        reception: HttpAuthenticator,
        attendance: DisconnectWatcher,
        limits: Limits,
    ) -> None:
        self._desk = desk
        self._reception = reception
        self._attendance = attendance
        self._limits = limits
        self._parameter_headers = ParameterHeaders(desk.gateway)

    async def serve(self, request: HttpRequest) -> None:
        """Answer a request.

        Raises:
            BodyTooLargeError: when its body is too large.
            ClientGoneError: when its client did not wait.
        """
        if request.method != "POST":
            await request.respond(405, headers=[(b"allow", b"POST")])
            return
        if not is_json(request.headers.get("content-type", "")):
            await request.refuse(400, RpcError(INVALID_REQUEST, "Invalid Content-Type header"))
            return
        takes_json, takes_events = accepts(request.headers.get("accept", ""))
        if not (takes_json and takes_events):
            words = "Not Acceptable: Client must accept both application/json and text/event-stream"
            await request.refuse(406, RpcError(INVALID_REQUEST, words))
            return
        await self._serve_body(request, await request.body(at_most=self._limits.body))

    async def _serve_body(self, request: HttpRequest, body: bytes) -> None:
        request_id: RequestId | None = None
        try:
            message = read_json(body)
            if not is_request(message):
                raise not_a_request()
            if "id" not in message:
                await self._take_note(request)
                return
            request_id = message["id"]
            stream = ResponseStream(request)
            exchange = self._exchange(request, message, stream)
        except RpcError as error:
            await request.refuse(_status(error), error, request_id=request_id)
            return
        del body, message  # whoever listens does so for hours
        await self._run(request, stream, exchange)

    async def _take_note(self, request: HttpRequest) -> None:
        # No notification of this era says anything to a server; clients send them all the same.
        requested = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, "")
        rejection = unsupported_protocol_version_rejection(requested)
        if rejection is not None:
            raise refusal_of(rejection)
        await request.respond(202)

    def _exchange(
        self, request: HttpRequest, message: dict[str, Any], stream: ResponseStream
    ) -> ClientRequest:
        headers = request.headers
        if len(headers) != len(request.scope["headers"]):
            self._refuse_duplicates(request)
        route = classify_inbound_request(message, headers=headers)
        if isinstance(route, InboundLadderRejection):
            raise refusal_of(route)
        client = client_of(route, principal=request.principal, face=request.face)
        params = with_trace(message["params"], headers)
        if message["method"] == _LISTEN:
            params = listening_params(params)
        exchange = ClientRequest(
            id=message["id"],
            method=message["method"],
            params=params,
            client=client,
            channel=stream,
        )
        if exchange.method == "tools/call":
            self._parameter_headers.check(exchange, headers)
        return exchange

    def _refuse_duplicates(self, request: HttpRequest) -> None:
        pairs = ((name.decode("latin-1"), "") for name, _ in request.scope["headers"])
        name = find_duplicated_routing_header(pairs)
        if name is not None:
            raise RpcError(HEADER_MISMATCH, f"{name} header appears more than once")

    async def _run(
        self, request: HttpRequest, stream: ResponseStream, exchange: ClientRequest
    ) -> None:
        status, response = 200, b""
        headers: Sequence[Header] = ()
        self._attendance.begin(stream, request)
        try:
            with stream.scope:
                try:
                    result = await respond_modern(self._desk, exchange)
                    status, response = 200, result_message(exchange.id, result)
                except RpcError as error:
                    # Whoever stands before us may send elsewhere what we did not begin.
                    is_begun = self._desk.gateway.is_ready or isinstance(error, CutOffError)
                    status = _status(error) if is_begun else 503
                    response = error_message(exchange.id, error)
                    headers = self._headers(error)
            if stream.is_abandoned:
                await stream.break_off()
            else:
                response = response or error_message(exchange.id, CutOffError())
                await stream.finish(status, response, headers=headers)
        finally:
            self._attendance.end(stream)

    def _headers(self, error: RpcError) -> Sequence[Header]:
        if isinstance(error, MissingScopeError):
            return self._reception.wants_scope(error.scope)
        match error.data:
            case {"retryAfter": float() as seconds} if error.code == RATE_LIMITED:
                return ((b"retry-after", b"%d" % max(1, math.ceil(seconds))),)
            case _:
                return ()


def _status(error: RpcError) -> int:
    if isinstance(error, NoGroupError):
        return 404
    return 403 if isinstance(error, MissingScopeError) else _STATUSES.get(error.code, 200)
