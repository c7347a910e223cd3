"""ServerCard: a description of this gateway that a client reads before it connects (SEP-2127)."""

from typing import Any

from mcp_types import INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from pegboard.gateway.request import RpcError
from pegboard.server.http.cors import open_to_any_page, respond_to_preflight
from pegboard.server.http.discovery.public_address import PublicAddress
from pegboard.server.http.request import HttpRequest
from pegboard.server.jsonrpc import encode
from pegboard.version import installed_version

__all__ = ["CARD_PATHS", "ServerCard"]

SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
MEDIA_TYPE = b"application/mcp-server-card+json"
CARD_PATHS = frozenset({"/mcp/server-card", "/.well-known/mcp/server-card.json"})
"""The first is that of the extension; the second is that of its drafts, which tools still try."""
_VERSION = installed_version()
_SECONDS = 3600


class ServerCard:
    """Serves the card, which holds no more than every client learns by connecting.

    Args:
        address: where the gateway is reached, and what it is called.
        title: the name that the gateway gives to clients.
    """

    def __init__(self, address: PublicAddress, title: str) -> None:
        self._address = address
        self._title = " ".join(title.split())[:100] or "pegboard"

    def takes(self, request: HttpRequest) -> bool:
        """Tell whether a request is for the card, and not for a group with the name of its path."""
        wants_events = "text/event-stream" in request.headers.get("accept", "")
        return request.method in ("GET", "HEAD", "OPTIONS") and not wants_events

    async def serve(self, request: HttpRequest) -> None:
        """Respond with the card; web pages may read it, too."""
        open_to_any_page(request)
        if request.method == "OPTIONS":
            await respond_to_preflight(request)
            return
        try:
            card = self.value(self._address.base(request))
        except RpcError as error:
            await request.refuse(400, RpcError(INVALID_REQUEST, error.message))
            return
        # A client that sends a false `Host` must not put a false address into a shared cache.
        whose = "public" if self._address.is_configured else "private"
        cached = b"cache-control", f"{whose}, max-age={_SECONDS}".encode()
        await request.respond(200, encode(card), kind=MEDIA_TYPE, headers=[cached])

    def value(self, base: str) -> dict[str, Any]:
        """Return the card of the gateway at an address."""
        versions = [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS]
        return {
            "$schema": SCHEMA,
            "name": self._address.name,
            "title": self._title,
            "description": "An MCP gateway: the tools of several servers at one address.",
            "version": _VERSION,
            "remotes": [self._address.remote(f"{base}/mcp", supportedProtocolVersions=versions)],
        }
