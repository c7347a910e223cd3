"""LegacySession: one client of the handshake era, from ``initialize`` until it disconnects."""

import logging
from collections.abc import Mapping
from typing import Any, cast

import anyio
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.dispatcher import DispatchContext, Outbound
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    INVALID_PARAMS,
    REQUEST_TIMEOUT,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from msgspec.structs import replace

from pegboard.gateway.request import Client, ClientRequest, Face, RpcError
from pegboard.model.principal import Principal
from pegboard.server.jsonrpc import encode, internal_error
from pegboard.server.message_limits import RequestId, is_request_id
from pegboard.server.request_pipeline import RequestPipeline
from pegboard.server.tracing import with_trace

__all__ = [
    "INLINE",
    "LegacySession",
    "PendingRequests",
    "SessionChannel",
    "check_client_info",
    "principal_in",
]

logger: logging.Logger = logging.getLogger("pegboard.server")

INLINE = frozenset({"initialize"})
"""Methods whose response is sent before the next message is read."""

SLOWEST_READER = 30.0
"""Seconds after which a notification is dropped that the client does not read."""

LONGEST_ANSWER = 600.0
"""Seconds that a client, and the person using it, have to respond to an elicitation."""

LONGEST = 16_384
"""The most bytes of JSON that the capabilities and the description of a client may have."""

_NEVER_ENDS = "subscriptions/listen"

Context = DispatchContext[TransportContext]
Params = Mapping[str, Any] | None


class SessionChannel:
    """Sends to a client of the handshake era, within one request or within its whole session."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, unless the client is gone or does not read."""
        with anyio.move_on_after(SLOWEST_READER):
            await self._outbound.notify(method, params)

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to the client, and return its result.

        Raises:
            RpcError: when the client responds with an error, too late, or cannot be asked.
        """
        with anyio.move_on_after(LONGEST_ANSWER):
            try:
                return await self._outbound.send_raw_request(method, params)
            except MCPError as error:
                said = error.error
                raise RpcError(said.code, said.message, said.data) from error
        words = f"The client did not answer {method} within {LONGEST_ANSWER:g} seconds."
        raise RpcError(REQUEST_TIMEOUT, words)


class LegacySession:
    """A session: the handshake, then each request passed to the gateway on behalf of its client."""

    def __init__(
        self, pipeline: RequestPipeline, *, session: str, principal: Principal, face: Face
    ) -> None:
        self._pipeline = pipeline
        self.client: Client = Client(
            principal=principal,
            era="legacy",
            version=LATEST_HANDSHAKE_VERSION,
            face=face,
            session=session,
        )
        """The client, as far as it has introduced itself."""
        self._outbound: Outbound | None = None
        self.is_open: bool = False
        """Whether the client has sent ``initialize``."""
        self._is_known = False

    async def run(
        self, read: ReadStream[SessionMessage | Exception], write: WriteStream[SessionMessage]
    ) -> None:
        """Serve the client until it disconnects."""
        dispatcher = JSONRPCDispatcher[TransportContext](read, write, inline_methods=INLINE)
        self.begin(dispatcher)
        try:
            await dispatcher.run(self.on_request, self.on_notify)
        finally:
            self.end()

    def begin(self, outbound: Outbound) -> None:
        """Take what reaches the client outside of its requests."""
        self._outbound = outbound

    def end(self) -> None:
        """Let the gateway forget the client."""
        if self._is_known:
            self._is_known = False
            self._pipeline.gateway.disconnected(self.client.session)

    async def on_request(self, context: Context, method: str, params: Params) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            MCPError: the error that the client gets instead.
        """
        try:
            if method == "initialize":
                return self._initialize(params or {})
            return await self.respond(self._client_request(context, method, params))
        except RpcError as error:
            raise MCPError(error.code, error.message, error.data) from error

    async def respond(self, request: ClientRequest) -> dict[str, Any]:
        """Return the result of a request other than the handshake.

        Raises:
            RpcError: the error that the client gets instead; no other error leaves this function.
        """
        if not self.is_open and request.method != "ping":
            raise RpcError(INVALID_PARAMS, "The first request of a session is `initialize`.")
        try:
            return await self._pipeline.respond(request)
        except RpcError:
            raise
        except Exception as error:
            logger.exception("A request failed: %s.", request.method)
            raise internal_error() from error

    def client_as(self, principal: Principal | None) -> Client:
        """Return the client with the principal of one message: its grants may have changed."""
        if principal is None or principal is self.client.principal:
            return self.client
        return replace(self.client, principal=principal)

    async def on_notify(self, context: Context, method: str, params: Params) -> None:
        """Handle a notification."""
        if not self.is_open:
            return
        if method == "notifications/initialized":
            if not self._is_known and self._outbound is not None:
                self._is_known = True
                self._pipeline.gateway.connected(self.client, SessionChannel(self._outbound))
            return
        await self._pipeline.gateway.notified(self._client_request(context, method, params))

    def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        wanted, capabilities, info = (
            params.get(key) for key in ("protocolVersion", "capabilities", "clientInfo")
        )
        if not (
            isinstance(wanted, str) and isinstance(capabilities, dict) and isinstance(info, dict)
        ):
            words = "`initialize` needs protocolVersion, capabilities and clientInfo."
            raise RpcError(INVALID_PARAMS, words)
        said, known = cast("dict[str, Any]", capabilities), cast("dict[str, Any]", info)
        check_client_info(said, known)
        version = wanted if wanted in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        self.client = replace(self.client, version=version, capabilities=said, info=known)
        self.is_open = True
        response: dict[str, Any] = {
            "protocolVersion": version,
            "capabilities": self._pipeline.gateway.capabilities(version),
            "serverInfo": dict(self._pipeline.gateway.info),
        }
        words = self._pipeline.gateway.instructions_for(self.client.face)
        return {**response, "instructions": words} if words else response

    def _client_request(self, context: Context, method: str, params: Params) -> ClientRequest:
        return ClientRequest(
            id=context.request_id,
            method=method,
            params=with_trace(params or {}, _headers_in(context)),
            client=self.client_as(principal_in(context)),
            channel=SessionChannel(context),
        )


class PendingRequests:
    """The requests of a session that have no response yet, known from its messages."""

    def __init__(self) -> None:
        self._ids: set[RequestId] = set()
        self._none_left = anyio.Event()

    def add(self, message: object) -> None:
        """Note a message of the client: a request, or the cancellation of one."""
        match message:
            case JSONRPCRequest(method=method, id=it) if method != _NEVER_ENDS:
                self._ids.add(it)
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": it}):
                if is_request_id(it):
                    self._discard(it)
            case _:
                pass

    def remove(self, message: object) -> None:
        """Note a message that was written to the client."""
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._discard(message.id)

    async def wait(self, seconds: float) -> None:
        """Wait until every response is written, but not for longer than this."""
        with anyio.move_on_after(seconds):
            while self._ids:
                self._none_left = anyio.Event()
                await self._none_left.wait()

    def _discard(self, request_id: RequestId) -> None:
        self._ids.discard(request_id)
        if not self._ids:
            self._none_left.set()


def check_client_info(capabilities: Mapping[str, Any], info: Mapping[str, Any]) -> None:
    """Refuse a client description that is too long to be kept.

    Raises:
        RpcError: when it is too long.
    """
    if len(encode(capabilities)) + len(encode(info)) > LONGEST:
        words = f"Capabilities and clientInfo have more than {LONGEST} bytes."
        raise RpcError(INVALID_PARAMS, words)


def principal_in(context: Context) -> Principal | None:
    """Return the principal of the HTTP request that brought a message, if there was one."""
    request = _request_of(context)
    return None if request is None else request.scope.get("pegboard.principal")


def _headers_in(context: Context) -> Mapping[str, str]:
    request = _request_of(context)
    return {} if request is None else request.headers


def _request_of(context: Context) -> Any:
    metadata = context.message_metadata
    return metadata.request_context if isinstance(metadata, ServerMessageMetadata) else None
