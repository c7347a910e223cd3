"""LegacySession: one client of the handshake era, from ``initialize`` until it disconnects."""

import logging
from collections.abc import Mapping
from typing import Any, cast

from mcp_types import INVALID_PARAMS
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from msgspec.structs import replace

from pegboard.gateway.request import Client, ClientRequest, Face, RpcError
from pegboard.model.principal import Principal
from pegboard.server.client_peer import ClientPeer, Outlet, PeerChannel
from pegboard.server.jsonrpc import check_client_info
from pegboard.server.request_pipeline import RequestPipeline
from pegboard.server.tracing import with_trace
from pegboard.upstream.messages.extensions import carried_capabilities

__all__ = ["LegacySession"]

logger: logging.Logger = logging.getLogger("pegboard.server")

_NO_HEADERS: Mapping[str, str] = {}


class LegacySession:
    """A session: the handshake, then each request passed to the gateway on behalf of its client.

    Every transport uses it: it reads the messages, and says where the responses go.

    Args:
        pipeline: what responds to the requests.
        session: the id of the session.
        principal: the caller who opens it.
        face: what the client is shown.
        outlet: where messages go that belong to no request.
    """

    def __init__(
        self,
        pipeline: RequestPipeline,
        *,
        session: str,
        principal: Principal,
        face: Face,
        outlet: Outlet,
    ) -> None:
        self._pipeline = pipeline
        self._outlet = outlet
        self.peer: ClientPeer = ClientPeer()
        """The requests of the client, and those to it."""
        self.client: Client = Client(
            principal=principal,
            era="legacy",
            version=LATEST_HANDSHAKE_VERSION,
            face=face,
            session=session,
        )
        """The client, as far as it has introduced itself."""
        self.is_open: bool = False
        """Whether the client has sent ``initialize``."""
        self._is_known = False

    async def respond(
        self,
        message: Mapping[str, Any],
        outlet: Outlet,
        *,
        principal: Principal | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> dict[str, Any]:
        """Return the result of a request.

        Args:
            message: the request.
            outlet: where the messages go that belong to this request.
            principal: its sender; the grants may have changed since the handshake.
            headers: the HTTP headers that it came with.

        Raises:
            RpcError: the error that the client gets instead; no other error leaves this function.
        """
        method = message["method"]
        if method == "initialize":
            return self._initialize(message.get("params") or {})
        if not self.is_open and method != "ping":
            raise RpcError(INVALID_PARAMS, "The first request of a session is `initialize`.")
        channel = PeerChannel(self.peer, outlet)
        try:
            request = self._client_request(message, channel, principal, headers)
            return await self._pipeline.respond(request)
        finally:
            channel.close()

    async def hear(
        self,
        message: Mapping[str, Any],
        *,
        principal: Principal | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> None:
        """Handle a notification; the transport has shown it to the peer already."""
        if not self.is_open:
            return
        channel = PeerChannel(self.peer, self._outlet)
        if message["method"] == "notifications/initialized":
            if not self._is_known:
                self._is_known = True
                self._pipeline.gateway.connected(self.client, channel)
            return
        try:
            request = self._client_request(message, channel, principal, headers)
            await self._pipeline.gateway.notified(request)
        except Exception:
            # The client waits for no response.
            logger.exception("A notification could not be handled: %s.", message["method"])

    def end(self, *, by_client: bool = False) -> None:
        """Cancel the requests of the client, and let the gateway forget it.

        Args:
            by_client: whether the client has ended the session; then it cancelled its requests.
        """
        self.peer.close(by_client=by_client)
        if self._is_known:
            self._is_known = False
            self._pipeline.gateway.disconnected(self.client.session)

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
        carried = carried_capabilities(said)
        self.client = replace(self.client, version=version, capabilities=carried, info=known)
        self.is_open = True
        self._pipeline.introduce(self.client)
        response: dict[str, Any] = {
            "protocolVersion": version,
            "capabilities": self._pipeline.gateway.capabilities(version, self.client),
            "serverInfo": dict(self._pipeline.gateway.info),
        }
        words = self._pipeline.gateway.instructions_for(self.client.face)
        return {**response, "instructions": words} if words else response

    def _client_request(
        self,
        message: Mapping[str, Any],
        channel: PeerChannel,
        principal: Principal | None,
        headers: Mapping[str, str],
    ) -> ClientRequest:
        client = self.client
        if principal is not None and principal is not client.principal:
            client = replace(client, principal=principal)
        return ClientRequest(
            id=message.get("id"),
            method=message["method"],
            params=with_trace(message.get("params") or {}, headers),
            client=client,
            channel=channel,
        )
