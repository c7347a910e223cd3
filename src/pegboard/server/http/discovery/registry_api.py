"""RegistryApi: ``GET /v0.1/servers``, the MCP registry API, for editors that ask a registry."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Literal
from urllib.parse import parse_qsl

from mcp_types import INVALID_PARAMS

from pegboard.auth import CallLimits
from pegboard.gateway.catalog.group_addresses import ApprovedServer
from pegboard.gateway.request import RpcError
from pegboard.model.principal import Principal
from pegboard.server.http.cors import open_to_any_page, respond_to_preflight
from pegboard.server.http.discovery.mcp_registry import LATEST, ListedServer, ListQuery, McpRegistry
from pegboard.server.http.discovery.public_address import PublicAddress
from pegboard.server.http.request import Header, HttpRequest
from pegboard.server.jsonrpc import encode

__all__ = ["PUBLIC", "Approved", "RegistryApi"]

PREFIX = "/v0.1/"
PUBLIC = Principal(subject="public", scopes=frozenset({"read"}))
"""A client without a credential, where the registry is public: it sees the names of all servers."""
Approved = Callable[[Principal], Awaitable[list[ApprovedServer]]]
"""Returns the servers that a caller may know."""

_MOST_PARAMETERS = 20
_SECONDS = 60
"""How long a client may use a response without asking again."""
_NOT_FOUND = {"error": "Server not found"}


class RegistryApi:
    """Serves the registry; like the catalogue, it shows each caller its own servers.

    Args:
        registry: describes the servers.
        address: where the gateway is reached.
        approved: returns the servers of a caller.
        is_public: whether a client without a credential sees the servers of the default tenant.
        per_minute: how many requests one key or one address may send.
    """

    def __init__(
        self,
        registry: McpRegistry,
        address: PublicAddress,
        approved: Approved,
        *,
        is_public: bool,
        per_minute: int,
    ) -> None:
        self._registry = registry
        self._address = address
        self._approved = approved
        self.is_public: bool = is_public
        # Not those of calls: an editor that looks for updates must not use up the calls of its key.
        self._limits = CallLimits(calls_per_minute=per_minute)

    def admits(self, request: HttpRequest) -> bool:
        """Let a request without a credential in if the registry is public; else return false."""
        headers = request.headers
        if not self.is_public or "authorization" in headers or "x-api-key" in headers:
            return False
        open_to_any_page(request)
        request.principal = PUBLIC
        return True

    async def serve(self, request: HttpRequest) -> None:
        """Respond to a request for a path under ``/v0.1/``."""
        if request.method == "OPTIONS" and request.principal is PUBLIC:
            await respond_to_preflight(request)
            return
        if request.method not in ("GET", "HEAD"):
            await request.respond(405, headers=[(b"allow", b"GET, HEAD, OPTIONS")])
            return
        with self._limits.admit(self._counted(request)):
            await self._serve(request)

    async def _serve(self, request: HttpRequest) -> None:
        parts = request.scope["path"].removeprefix(PREFIX).split("/")
        try:
            base = self._address.base(request)
            servers = await self._approved(request.principal)
            tenant = request.principal.tenant
            entries = self._registry.entries(servers, tenant=tenant, base=base)
            value = self._found(parts, request.scope["query_string"], entries)
        except RpcError as error:
            status = 400 if error.code == INVALID_PARAMS else 503
            await request.respond_json(status, {"error": error.message})
            return
        if value is None:
            await request.respond_json(404, _NOT_FOUND)
        else:
            await self._send(request, encode(value))

    def _found(self, parts: list[str], query: bytes, entries: dict[str, ListedServer]) -> object:
        # The slash in a name is sent as `%2F`, or as it is; here it is decoded.
        match parts:
            case ["servers"]:
                return self._registry.page(entries, ListQuery.of(_parameters(query)))
            case ["servers", namespace, name, "versions", *version] if len(version) <= 1:
                entry = entries.get(f"{namespace}/{name}")
            case _:
                return None
        if entry is None:
            return None
        if not version:
            return {"servers": [entry.value()], "metadata": {"count": 1}}
        return entry.value() if version[0] in (LATEST, entry.version) else None

    async def _send(self, request: HttpRequest, body: bytes) -> None:
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        whose: Literal["public", "private"]
        is_same_for_all = request.principal is PUBLIC and self._address.is_configured
        # Else a client that sends a false `Host` could put a false address into a shared cache.
        whose = "public" if is_same_for_all else "private"
        headers: list[Header] = [
            (b"etag", tag.encode()),
            (b"cache-control", f"{whose}, max-age={_SECONDS}".encode()),
            (b"vary", b"authorization, x-api-key"),
        ]
        if _has(request.headers.get("if-none-match", ""), tag):
            await request.respond(304, headers=headers)
        else:
            await request.respond_json(200, body, headers=headers)

    @staticmethod
    def _counted(request: HttpRequest) -> Principal:
        # All clients without a credential are one principal, so their addresses are counted.
        tenant, subject, address = request.account
        if request.principal is PUBLIC:
            address = request.source
        return Principal(tenant=tenant, subject=f"{subject} {address}" if address else subject)


def _parameters(query: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(query.decode("latin-1"), max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        words = f"A query has at most {_MOST_PARAMETERS} parameters."
        raise RpcError(INVALID_PARAMS, words) from None
    return dict(pairs)


def _has(condition: str, tag: str) -> bool:
    given = {it.strip().removeprefix("W/") for it in condition.split(",")}
    return tag in given or "*" in given
