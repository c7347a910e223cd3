"""What clients of the gateway load at each of its addresses."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from pegboard.gateway import Client, Exchange, Face, Gateway, GatewayOptions
from pegboard.hub import Hub
from pegboard.model.principal import LOCAL
from pegboard.server.settings import load_gateway_settings

__all__ = ["gateway_options", "own_definitions"]


def gateway_options(config: str | None) -> GatewayOptions:
    """Return how the gateway of a configuration would be set up.

    Raises:
        ConfigError: when its settings cannot be used.
    """
    return load_gateway_settings(config).options


def own_definitions(options: GatewayOptions) -> Sequence[Mapping[str, Any]]:
    """Return the tools that the gateway itself has on its search surface, as it lists them."""
    return anyio.run(_listed, options)


class _NobodyListens:
    async def notify(self, method: str, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError("A list asks nobody anything.")


async def _listed(options: GatewayOptions) -> Sequence[Mapping[str, Any]]:
    client = Client(
        principal=LOCAL, era="modern", version="2026-07-28", face=Face(surface="search")
    )
    asked = Exchange(method="tools/list", params={}, client=client, channel=_NobodyListens())
    async with Hub([]) as hub, Gateway(hub, options) as gateway:
        return (await gateway.answer(asked))["tools"]
