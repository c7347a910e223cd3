"""Resources of all servers, under addresses that say whose they are."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import INVALID_PARAMS

from pegboard.errors import ProtocolError, ServerNotFoundError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.calls.era_bridge import Bridge
from pegboard.gateway.errors import rpc_error_of
from pegboard.gateway.passthrough.listing_cache import Items, Kind, ListingCache, page_of
from pegboard.gateway.passthrough.own_resources import OwnResources
from pegboard.gateway.request import RpcError, parts_in
from pegboard.gateway.resource_uris import ResourceUris
from pegboard.gateway.scopes import MissingScopeError
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.policies.access import METHODS, holds

__all__ = ["Resources"]

_NOT_FOUND = -32002
"""What the handshake era answers for a resource that there is not."""


class Resources:
    """Lists, reads and finds the resources of one hub.

    Args:
        hub: whose servers have them.
        offers: what they list.
        uris: what resources are called here.
        bridge: how a request reaches its client.
        own: the gateway's own resources.
    """

    def __init__(
        self,
        hub: Hub,
        offers: ListingCache,
        uris: ResourceUris,
        bridge: Bridge,
        *,
        own: OwnResources,
    ) -> None:
        self._hub = hub
        self._offers = offers
        self._uris = uris
        self._bridge = bridge
        self._own = own
        self._templates: dict[str, tuple[Items, list[UriTemplate]]] = {}
        """The templates of each server, parsed once for each of its lists."""

    async def page(self, caller: CallerContext, *, size: int) -> dict[str, Any]:
        """Return one page of `resources/list`.

        Raises:
            RpcError: when the cursor is none of ours.
        """
        found = await self._seen("resources/list", "uri", caller.visibility)
        items = [*self._own.items, *found] if caller.visibility.reads else []
        return page_of(items, caller.exchange.params.get("cursor"), key="resources", size=size)

    async def page_of_templates(self, caller: CallerContext, *, size: int) -> dict[str, Any]:
        """Return one page of `resources/templates/list`.

        Raises:
            RpcError: when the cursor is none of ours.
        """
        items = await self._seen("resources/templates/list", "uriTemplate", caller.visibility)
        cursor = caller.exchange.params.get("cursor")
        return page_of(items, cursor, key="resourceTemplates", size=size)

    async def read(self, caller: CallerContext) -> dict[str, Any]:
        """Return what a resource holds.

        Raises:
            RpcError: when there is no such resource for this client, or its server fails.
            AccessDeniedError: when it may only be looked at.
            UpstreamError: when its server cannot be asked.
        """
        uri: object = caller.exchange.params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(INVALID_PARAMS, "`resources/read` takes a `uri`, a string.")
        own = await self._own.read(uri, caller) if caller.visibility.reads else None
        if own is not None:
            return own
        name, original = await self._used(uri, caller)
        server = self._hub.server(name)

        async def work() -> dict[str, Any]:
            return await server.request("resources/read", {"uri": original})

        try:
            result = await self._bridge.run(caller.exchange, name, work)
        except ProtocolError as error:
            if error.rpc_code in (_NOT_FOUND, INVALID_PARAMS):
                raise _unknown(caller, uri, error.rpc_message) from error
            raise rpc_error_of(error, caller.client.principal) from error
        contents = parts_in(result.get("contents"))
        if contents is None:
            return result
        return {**result, "contents": [self._uris.in_item(it, name) for it in contents]}

    async def usable(self, uri: str, caller: CallerContext) -> tuple[str, str] | None:
        """Return where a resource is that may be watched; ``None`` for one of the gateway itself.

        Raises:
            RpcError: when this client may watch nothing, or it is nobody's, as far as it may know.
            AccessDeniedError: when it may only be looked at.
        """
        if caller.visibility.reads and self._own.has(uri):
            return None
        scope = METHODS["resources/subscribe"]
        if not holds(caller.client.principal, scope):
            # Before it is looked for: who may watch nothing is not told what there is.
            raise MissingScopeError(scope)
        return await self._used(uri, caller)

    async def origin(self, uri: str, caller: CallerContext) -> tuple[str, str]:
        """Return the server of a resource, and the address it has there.

        An address that only one server offers is understood without the server's name.

        Raises:
            RpcError: when it is nobody's, as far as this client may know.
        """
        visibility = caller.visibility
        ours = self._uris.origin(uri)
        if ours is not None and self._sees(visibility, ours[0], uri):
            return ours
        for servers in (
            {name for name, items in await self._listed("resources/list") if _lists(items, uri)},
            {
                name
                for name, items in await self._listed("resources/templates/list")
                if any(_fits(it, uri) for it in self._parsed(name, items))
            },
            {name for name in self._hub.servers if self._is_open_to(name)},
        ):
            seen = [
                name
                for name in servers
                if self._sees(visibility, name, self._uris.exposed(name, uri))
            ]
            if len(seen) == 1:
                return seen[0], uri
        raise _unknown(caller, uri)

    async def template_origin(self, template: str, caller: CallerContext) -> tuple[str, str] | None:
        """Return the server of a template, or of a resource, and what it is called there."""
        for name, items in await self._listed("resources/templates/list"):
            for item in items:
                original: object = item.get("uriTemplate")
                if isinstance(original, str) and template in (
                    self._uris.exposed(name, original),
                    original,
                ):
                    shown = self._uris.exposed(name, original)
                    if self._sees(caller.visibility, name, shown):
                        return name, original
        try:
            return await self.origin(template, caller)
        except RpcError:
            return None

    async def _used(self, uri: str, caller: CallerContext) -> tuple[str, str]:
        server, original = await self.origin(uri, caller)
        caller.visibility.check_use(server, self._uris.exposed(server, original))
        return server, original

    async def _seen(self, kind: Kind, key: str, visibility: Visibility) -> Items:
        seen: Items = []
        for name, items in await self._listed(kind):
            for item in items:
                original: object = item.get(key)
                if isinstance(original, str):
                    shown = self._uris.exposed(name, original)
                    if self._sees(visibility, name, shown):
                        seen.append({**item, key: shown})
        return seen

    async def _listed(self, kind: Kind) -> list[tuple[str, Items]]:
        return await self._offers.listed(kind)

    def _parsed(self, server: str, items: Items) -> list[UriTemplate]:
        known = self._templates.get(server)
        if known is None or known[0] is not items:
            known = self._templates[server] = items, list(_parsed(items))
        return known[1]

    def _sees(self, visibility: Visibility, server: str, shown: str) -> bool:
        try:
            return visibility.sees_of(server, shown, self._hub.server(server).config.tags)
        except ServerNotFoundError:
            return False

    def _is_open_to(self, server: str) -> bool:
        """Tell whether a server may have resources under any address, unlisted ones included."""
        return self._hub.server(server).config.prefix == "" and self._offers.can(
            server, "resources"
        )


def _unknown(caller: CallerContext, uri: str, words: str | None = None) -> RpcError:
    code = INVALID_PARAMS if caller.client.era == "modern" else _NOT_FOUND
    return RpcError(code, words or "Resource not found", {"uri": uri})


def _lists(items: Items, uri: str) -> bool:
    return any(item.get("uri") == uri for item in items)


def _parsed(items: Items) -> Iterator[UriTemplate]:
    for item in items:
        with suppress(InvalidUriTemplate, ValueError):
            yield UriTemplate.parse(str(item.get("uriTemplate")))


def _fits(template: UriTemplate, uri: str) -> bool:
    try:
        return template.match(uri) is not None
    except ValueError:
        return False
