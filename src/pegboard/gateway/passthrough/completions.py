"""Completions: suggested values for an argument of a prompt or a resource template."""

from typing import Any

from mcp_types import INVALID_PARAMS

from pegboard.errors import ProtocolError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.calls.era_bridge import Bridge
from pegboard.gateway.errors import rpc_error_of
from pegboard.gateway.passthrough.listing_cache import ListingCache
from pegboard.gateway.passthrough.prompts import Prompts
from pegboard.gateway.passthrough.resources import Resources
from pegboard.gateway.request import RpcError, object_in
from pegboard.gateway.resource_uris import ResourceUris
from pegboard.hub import Hub

__all__ = ["Completions"]

_NOTHING: dict[str, Any] = {"completion": {"values": [], "total": 0, "hasMore": False}}


class Completions:
    """Asks the server of a prompt or template for completions."""

    def __init__(
        self,
        hub: Hub,
        listings: ListingCache,
        uris: ResourceUris,
        bridge: Bridge,
        *,
        resources: Resources,
        prompts: Prompts,
    ) -> None:
        self._hub = hub
        self._listings = listings
        self._uris = uris
        self._bridge = bridge
        self._resources = resources
        self._prompts = prompts

    async def complete(self, caller: CallerContext) -> dict[str, Any]:
        """Return the values that an argument may have.

        Raises:
            RpcError: when there is no such prompt or template that the client may see.
            AccessDeniedError: when the client may only see it.
            UpstreamError: when its server cannot be reached.
        """
        given = caller.request.params
        reference = object_in(given.get("ref"))
        server_name, named, shown = await self._origin(reference, caller)
        caller.visibility.check_use(server_name, shown)
        if not self._listings.can(server_name, "completions"):
            return _NOTHING
        server = self._hub.server(server_name)
        params = {key: given[key] for key in ("argument", "context") if key in given}
        params["ref"] = {**reference, **named}

        async def work() -> dict[str, Any]:
            return await server.request("completion/complete", params)

        try:
            return await self._bridge.run(caller.request, server, work)
        except ProtocolError as error:
            raise rpc_error_of(error, caller.client.principal) from error

    async def _origin(
        self, reference: Any, caller: CallerContext
    ) -> tuple[str, dict[str, str], str]:
        match reference.get("type"):
            case "ref/prompt":
                name: object = reference.get("name")
                server, original = await self._prompts.origin(name, caller)
                return server, {"name": original}, str(name)
            case "ref/resource" if isinstance(reference.get("uri"), str):
                uri = reference["uri"]
                found = await self._resources.template_origin(uri, caller)
                if found is not None:
                    server, original = found
                    return server, {"uri": original}, self._uris.exposed(server, original)
                raise RpcError(INVALID_PARAMS, f"Unknown resource template: {uri}", {"uri": uri})
            case _:
                words = "`ref` names a prompt (`ref/prompt`) or a template (`ref/resource`)."
                raise RpcError(INVALID_PARAMS, words)
