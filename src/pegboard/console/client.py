"""The console as a client: its requests go through the same door as those of any MCP client."""

from collections.abc import Mapping
from typing import Any

from mcp_types import METHOD_NOT_FOUND

from pegboard.console.request import PageRequest
from pegboard.gateway.request import Client, ClientRequest, Face, RpcError, Surface
from pegboard.version import installed_version

__all__ = ["asked"]

_VERSION = "2026-07-28"
_INFO = {"name": "pegboard-console", "version": installed_version()}


class _Listener:
    """Drops what the gateway says during a request; a person at a page is not asked there."""

    can_ask = False

    async def notify(self, method: str, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise RpcError(METHOD_NOT_FOUND, "The console answers no questions of servers.")


async def asked(
    page: PageRequest, method: str, params: Mapping[str, Any], *, surface: Surface = "full"
) -> dict[str, Any]:
    """Return the raw result of a request that the person at a page sends.

    Raises:
        RpcError: the error instead of a result.
    """
    client = Client(
        principal=page.principal,
        era="modern",
        version=_VERSION,
        face=Face(surface=surface),
        info=_INFO,
    )
    request = ClientRequest(method=method, params=params, client=client, channel=_Listener())
    return await page.sources.respond(request)
