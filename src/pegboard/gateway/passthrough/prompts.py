"""Prompts of all servers: `prompts/list` and `prompts/get`, with names prefixed as tools are."""

from collections.abc import Callable
from typing import Any

from mcp_types import INVALID_PARAMS

from pegboard.errors import ProtocolError
from pegboard.errors.root import shorten
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.calls.era_bridge import Bridge
from pegboard.gateway.errors import rpc_error_of
from pegboard.gateway.passthrough.listing_cache import ListingCache, page_of
from pegboard.gateway.passthrough.seen_items import Seen, SeenItems
from pegboard.gateway.request import RpcError, object_in, parts_in
from pegboard.gateway.resource_uris import ResourceUris
from pegboard.gateway.skills.tenant_skills import TenantSkills
from pegboard.hub import Hub
from pegboard.model.tool_names import NameTable, nearest_names

__all__ = ["Prompts"]


class Prompts:
    """Lists and gets the prompts of one hub.

    Args:
        hub: its servers have the prompts.
        listings: the cached lists of the servers.
        uris: the URIs of resources in the gateway.
        bridge: relays questions of the server to the client.
        skills: the skills, which are prompts for clients that do not know skills.
    """

    def __init__(
        self,
        hub: Hub,
        listings: ListingCache,
        uris: ResourceUris,
        bridge: Bridge,
        *,
        skills: TenantSkills,
    ) -> None:
        self._hub = hub
        self._listings = listings
        self._uris = uris
        self._bridge = bridge
        self._skills = skills
        self._seen_items = SeenItems(hub, self._naming)

    async def page(self, caller: CallerContext, *, size: int) -> dict[str, Any]:
        """Return one page of `prompts/list`.

        Raises:
            RpcError: when the cursor is invalid.
        """
        seen = await self._seen(caller)
        skills = await self._skills.fallback.prompts(caller, taken=seen)
        cursor = caller.request.params.get("cursor")
        page = page_of([*seen, *skills], cursor, key="prompts", size=size)
        return {**page, "prompts": [_with_name(it, seen) for it in page["prompts"]]}

    async def get(self, caller: CallerContext) -> dict[str, Any]:
        """Return a prompt with its arguments filled in.

        Raises:
            RpcError: when there is no such prompt that the client may see, or its server refuses.
            AccessDeniedError: when the client may only see the prompt.
            UpstreamError: when its server cannot be reached.
        """
        name: object = caller.request.params.get("name")
        skill = await self._skills.fallback.prompt(name, caller, taken=await self._seen(caller))
        if skill is not None:
            return skill
        server_name, original = await self.origin(name, caller)
        caller.visibility.check_use(server_name, str(name))
        server = self._hub.server(server_name)
        params: dict[str, Any] = {"name": original}
        arguments: object = caller.request.params.get("arguments")
        if arguments is not None:
            params["arguments"] = arguments

        async def work() -> dict[str, Any]:
            return await server.request("prompts/get", params)

        try:
            result = await self._bridge.run(caller.request, server, work)
        except ProtocolError as error:
            raise rpc_error_of(error, caller.client.principal) from error
        messages = parts_in(result.get("messages"))
        if messages is None:
            return result
        return {**result, "messages": [self._shown(it, server_name) for it in messages]}

    async def origin(self, name: object, caller: CallerContext) -> tuple[str, str]:
        """Return the server of a prompt, and its original name there.

        Raises:
            RpcError: when there is no such prompt that the client may see.
        """
        seen = await self._seen(caller)
        found = seen.get(name) if isinstance(name, str) else None
        if found is None:
            near = nearest_names(name, seen)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise RpcError(INVALID_PARAMS, f"Unknown prompt: {shorten(name)}.{hint}")
        return found[0], found[1]["name"]

    async def _seen(self, caller: CallerContext) -> Seen:
        """Return server and definition of each prompt that a client may see, by name."""
        listed = await self._listings.listed("prompts/list")
        return await self._seen_items.of(listed, caller.visibility)

    def _naming(self) -> Callable[[str, dict[str, Any]], str | None]:
        names = NameTable(self._hub.exposed_name)

        def named(server: str, item: dict[str, Any]) -> str | None:
            original: object = item.get("name")
            return names.assign(server, original) if isinstance(original, str) else None

        return named

    def _shown(self, message: Any, server: str) -> Any:
        content: object = object_in(message).get("content")
        if content is None:
            return message
        return {**message, "content": self._uris.in_block(content, server)}


def _with_name(item: Any, seen: Seen) -> dict[str, Any]:
    return {**seen[item][1], "name": item} if isinstance(item, str) else item
