"""The tools of the gateway itself, as a client lists them on its search surface."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from pegboard.gateway import Client, ClientRequest, Face, Gateway, GatewayOptions
from pegboard.hub import Hub
from pegboard.model.principal import LOCAL, Principal
from pegboard.server.settings import load_gateway_settings

__all__ = ["gateway_options", "own_definitions"]


def gateway_options(config: str | None) -> GatewayOptions:
    """Return how the gateway of a configuration would be set up.

    Raises:
        ConfigError: when its settings cannot be used.
    """
    return load_gateway_settings(config).options


def own_definitions(
    options: GatewayOptions, principal: Principal = LOCAL
) -> Sequence[Mapping[str, Any]]:
    """Return the gateway's own tools on its search surface, as it lists them to a caller."""
    return anyio.run(_listed, options, principal)


class _SilentChannel:
    async def notify(self, method: str, params: Mapping[str, Any]) -> None: ...

    can_ask = False

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError("Listing tools asks the client nothing.")


async def _listed(options: GatewayOptions, principal: Principal) -> Sequence[Mapping[str, Any]]:
    client = Client(
        principal=principal, era="modern", version="2026-07-28", face=Face(surface="search")
    )
    asked = ClientRequest(method="tools/list", params={}, client=client, channel=_SilentChannel())
    async with Hub([]) as hub, Gateway(hub, options) as gateway:
        return (await gateway.respond(asked))["tools"]
