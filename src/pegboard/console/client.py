"""The console as a client: its requests go through the same door as those of any MCP client."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from mcp_types import METHOD_NOT_FOUND

from pegboard.console.request import PageRequest
from pegboard.gateway.eras import LOG_LEVEL
from pegboard.gateway.request import Client, ClientRequest, Face, RpcError, Surface
from pegboard.model.principal import Scope
from pegboard.version import installed_version

__all__ = ["Notified", "asked"]

_VERSION = "2026-07-28"
_INFO = {"name": "pegboard-console", "version": installed_version()}
_CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
"""A question of a server is the result of a call: the page shows it, and repeats the call."""

Notified = Callable[[str, Mapping[str, Any]], Awaitable[None]]
"""Receives the notifications during a request: their method and their parameters."""


class _Listener:
    can_ask = False

    def __init__(self, notified: Notified | None) -> None:
        self._notified = notified

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self._notified is not None:
            await self._notified(method, params)

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise RpcError(METHOD_NOT_FOUND, "The console answers questions only as results.")


async def asked(
    page: PageRequest,
    method: str,
    params: Mapping[str, Any],
    *,
    surface: Surface = "full",
    notified: Notified | None = None,
    withheld: frozenset[Scope] = frozenset(),
) -> dict[str, Any]:
    """Return the raw result of a request that the person at a page sends.

    Args:
        page: the page, with the person.
        method: the method of MCP.
        params: its parameters.
        surface: the address at which a client would send it.
        notified: receives the progress and the log of the request.
        withheld: scopes of the person that the request goes without.

    Raises:
        RpcError: the error instead of a result.
    """
    principal = page.principal
    if withheld:
        principal = msgspec.structs.replace(principal, withheld=principal.withheld | withheld)
    client = Client(
        principal=principal,
        era="modern",
        version=_VERSION,
        face=Face(surface=surface),
        capabilities=_CAPABILITIES,
        info=_INFO,
    )
    if notified is not None:
        params = {**params, "_meta": {"progressToken": 1, LOG_LEVEL: "info"}}
    request = ClientRequest(
        method=method, params=params, client=client, channel=_Listener(notified)
    )
    return await page.sources.respond(request)
