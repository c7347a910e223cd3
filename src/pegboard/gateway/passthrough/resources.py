"""Resources of all servers (list, templates, read), and the gateway's own `registry://` ones."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from heapq import nsmallest
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import INVALID_PARAMS

from pegboard.errors import ProtocolError, ServerNotFoundError, StorageError
from pegboard.gateway.builtin_tool import CATEGORIES, OWN_RESOURCES, STATS, CallerContext
from pegboard.gateway.calls.era_bridge import Bridge
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.errors import rpc_error_of
from pegboard.gateway.passthrough.listing_cache import Items, Kind, ListingCache, page_of
from pegboard.gateway.passthrough.seen_items import Seen, SeenItems, in_turns
from pegboard.gateway.request import RpcError, parts_in
from pegboard.gateway.resource_uris import PAGES, ResourceUris
from pegboard.gateway.scopes import MissingScopeError
from pegboard.gateway.skills.tenant_skills import TenantSkills
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model.tool import categories_of
from pegboard.policies.access import METHODS, holds
from pegboard.registry import Registry

__all__ = ["OwnResources", "Resources"]

_MOST_USED = 10
_NOT_FOUND = -32002
"""The error code of the handshake era for a resource that does not exist."""
_KEYS: dict[Kind, str] = {"resources/list": "uri", "resources/templates/list": "uriTemplate"}
_NO_RESOURCE = (_NOT_FOUND, INVALID_PARAMS)


class OwnResources:
    """``registry://stats`` and ``registry://categories``, counted over what each caller may see."""

    def __init__(self, registry: Registry, tools: ToolList) -> None:
        self._registry = registry
        self._tools = tools
        self.items: list[dict[str, Any]] = [
            {
                "uri": CATEGORIES,
                "name": "categories",
                "title": "Categories of tools",
                "description": "How many tools each category has.",
                "mimeType": "application/json",
            },
            {
                "uri": STATS,
                "name": "stats",
                "title": "Tools in numbers",
                "description": "How many tools, categories and servers there are, and which tools "
                "are used most.",
                "mimeType": "application/json",
            },
        ]

    def has(self, uri: str) -> bool:
        """Tell whether a URI is one of them."""
        return uri in OWN_RESOURCES

    async def read(self, uri: str, caller: CallerContext) -> dict[str, Any] | None:
        """Return the contents of one of them; ``None`` for any other URI."""
        if not self.has(uri):
            return None
        # In a thread: it takes long where there are very many tools.
        held = await anyio.to_thread.run_sync(self._counted, uri, caller.visibility.for_models())
        text = msgspec.json.encode(held).decode()
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}

    def _counted(self, uri: str, visibility: Visibility) -> dict[str, Any]:
        tools = {tool.name: tool for tool in self._tools.seen(visibility)}
        categories = categories_of(tools.values())
        if uri == CATEGORIES:
            return {"categories": categories}
        return {
            "tools": len(tools),
            "categories": len(categories),
            "servers": len({tool.server for tool in tools.values() if tool.server}),
            "most_used": self._most_used(tools),
        }

    def _most_used(self, tools: Iterable[str]) -> list[dict[str, Any]]:
        if self._registry.storage is None:
            return []
        try:
            usage = self._registry.usage(list(tools))
        except (StorageError, TypeError):
            # Statistics must not fail, and the storage may just have been closed.
            return []
        used = ((-it.use_frequency, name) for name, it in usage.items())
        return [{"name": name, "uses": -uses} for uses, name in nsmallest(_MOST_USED, used) if uses]


class Resources:
    """Lists, reads and finds the resources of one hub.

    Args:
        hub: its servers have the resources.
        listings: the cached lists of the servers.
        uris: the URIs of resources in the gateway.
        bridge: relays questions of the server to the client.
        own: the gateway's own resources.
        skills: has the files of skills of this machine, and checks those of all others.
    """

    def __init__(
        self,
        hub: Hub,
        listings: ListingCache,
        uris: ResourceUris,
        bridge: Bridge,
        *,
        own: OwnResources,
        skills: TenantSkills,
    ) -> None:
        self._hub = hub
        self._listings = listings
        self._uris = uris
        self._bridge = bridge
        self._own = own
        self._skills = skills
        self._templates: dict[str, tuple[Items, list[UriTemplate]]] = {}
        """The templates of each server, parsed once for each of its lists."""
        self._uris_of: dict[str, tuple[Items, frozenset[object]]] = {}
        """The URIs of each server, collected once for each of its lists."""
        self._parsing = anyio.Lock()
        self._seen_items: dict[Kind, SeenItems] = {
            kind: SeenItems(hub, partial(self._naming, key)) for kind, key in _KEYS.items()
        }

    async def page(self, caller: CallerContext, *, size: int) -> dict[str, Any]:
        """Return one page of `resources/list`.

        Raises:
            RpcError: when the cursor is invalid.
        """
        own: list[Any] = []
        seen: Seen = {}
        if caller.visibility.reads:
            own, seen = self._own.items, await self._seen("resources/list", caller.visibility)
        skills = await self._skills.fallback.resources(caller, listed=own, taken=seen)
        cursor = caller.request.params.get("cursor")
        page = page_of([*own, *seen, *skills], cursor, key="resources", size=size)
        shown = [_with_uri(it, "uri", seen) for it in page["resources"]]
        return {**page, "resources": shown}

    async def page_of_templates(self, caller: CallerContext, *, size: int) -> dict[str, Any]:
        """Return one page of `resources/templates/list`.

        Raises:
            RpcError: when the cursor is invalid.
        """
        seen = await self._seen("resources/templates/list", caller.visibility)
        cursor = caller.request.params.get("cursor")
        page = page_of(seen, cursor, key="resourceTemplates", size=size)
        shown = [_with_uri(it, "uriTemplate", seen) for it in page["resourceTemplates"]]
        return {**page, "resourceTemplates": shown}

    async def read(self, caller: CallerContext) -> dict[str, Any]:
        """Return the contents of a resource.

        Raises:
            RpcError: when there is no such resource that the client may see, or its server fails.
            AccessDeniedError: when the client may only see the resource.
            SkillIntegrityError: when a file of a skill is not what its entry says.
            UpstreamError: when its server cannot be reached.
        """
        uri: object = caller.request.params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(INVALID_PARAMS, "`resources/read` takes a `uri`, a string.")
        own = await self._own.read(uri, caller) if caller.visibility.reads else None
        own = own or await self._skills.reader.local(uri, caller)
        if own is not None:
            return own
        place = await self._used(uri, caller)
        try:
            return await self._contents(caller, uri, place)
        except RpcError as error:
            if error.code not in _NO_RESOURCE or not uri.startswith(PAGES):
                raise
            # A server may have written the name of a server into the URI of its own page.
            other = await self._unprefixed(uri, caller.visibility)
            if other is None or other == place:
                raise
        caller.visibility.check_use(other[0], self._uris.exposed(*other))
        return await self._contents(caller, uri, other)

    async def _contents(
        self, caller: CallerContext, uri: str, place: tuple[str, str]
    ) -> dict[str, Any]:
        name, original = place
        server = self._hub.server(name)

        async def work() -> dict[str, Any]:
            return await server.request("resources/read", {"uri": original})

        try:
            result = await self._bridge.run(caller.request, server, work)
        except ProtocolError as error:
            if error.rpc_code in _NO_RESOURCE:
                raise _unknown(caller, uri, error.rpc_message) from error
            raise rpc_error_of(error, caller.client.principal) from error
        await self._skills.reader.check(name, original, result)
        contents = parts_in(result.get("contents"))
        if contents is None:
            return result
        return {**result, "contents": [self._uris.in_item(it, name) for it in contents]}

    async def usable(self, uri: str, caller: CallerContext) -> tuple[str, str] | None:
        """Return server and original URI of a resource to watch; ``None`` for the gateway's own.

        Raises:
            RpcError: when the client lacks the scope to watch, or may see no such resource.
            AccessDeniedError: when the client may only see the resource.
        """
        if caller.visibility.reads and self._own.has(uri):
            return None
        scope = METHODS["resources/subscribe"]
        principal = caller.client.principal
        if not holds(principal, scope):
            # Checked before the lookup, so that the error does not reveal which resources exist.
            raise MissingScopeError(scope, principal)
        return await self._used(uri, caller)

    async def origin(self, uri: str, caller: CallerContext) -> tuple[str, str]:
        """Return the server of a resource, and its original URI there.

        A URI that only one server has works without the prefix of the server.

        Raises:
            RpcError: when there is no such resource that the client may see.
        """
        visibility = caller.visibility
        ours = self._uris.origin(uri)
        if ours is not None and self._uris.hides(ours[1]):
            raise _unknown(caller, uri)
        # One resource may be written in several ways, and access is decided by one of them.
        if ours is not None and self._sees(visibility, ours[0], self._uris.exposed(*ours)):
            return ours
        found = await self._unprefixed(uri, visibility)
        if found is None:
            raise _unknown(caller, uri)
        return found

    async def _unprefixed(self, uri: str, visibility: Visibility) -> tuple[str, str] | None:
        """Return the only server that the client may see and that has a URI as it is."""
        if self._uris.hides(uri):
            return None
        for having in (self._listing, self._fitting, self._open_to_all):
            seen = [
                name
                for name in await having(uri)
                if self._sees(visibility, name, self._uris.exposed(name, uri))
            ]
            if len(seen) == 1:
                return seen[0], uri
        return None

    async def template_origin(self, template: str, caller: CallerContext) -> tuple[str, str] | None:
        """Return the server of a template or a resource, and its original URI there."""
        seen = await self._seen("resources/templates/list", caller.visibility)
        found = seen.get(template) or await in_turns(
            seen.values(), lambda it: it[1]["uriTemplate"] == template
        )
        if found is not None:
            return found[0], found[1]["uriTemplate"]
        try:
            return await self.origin(template, caller)
        except RpcError:
            return None

    async def _used(self, uri: str, caller: CallerContext) -> tuple[str, str]:
        server, original = await self.origin(uri, caller)
        caller.visibility.check_use(server, self._uris.exposed(server, original))
        return server, original

    async def _seen(self, kind: Kind, visibility: Visibility) -> Seen:
        """Return server and definition of each that a client may see, by its URI in the gateway."""
        return await self._seen_items[kind].of(await self._listed(kind), visibility)

    async def _listed(self, kind: Kind) -> list[tuple[str, Items]]:
        return await self._listings.listed(kind)

    async def _listing(self, uri: str) -> list[str]:
        """Return the servers that list a resource."""
        listed = await self._listed("resources/list")
        return [name for name, items in listed if uri in self._all_uris(name, items)]

    async def _fitting(self, uri: str) -> list[str]:
        """Return the servers with a template that a resource fits."""
        return [
            name
            for name, items in await self._listed("resources/templates/list")
            if await in_turns(await self._parsed(name, items), lambda it: _fits(it, uri))
        ]

    async def _open_to_all(self, _: str) -> list[str]:
        """Return the servers that may have resources with any URI, even unlisted ones."""
        names = [it.config.name for it in self._hub.enabled_servers() if it.config.prefix == ""]
        return [name for name in names if self._listings.can(name, "resources")]

    def _all_uris(self, server: str, items: Items) -> frozenset[object]:
        known = self._uris_of.get(server)
        if known is None or known[0] is not items:
            uris = frozenset(uri for it in items if isinstance(uri := it.get("uri"), str))
            known = self._uris_of[server] = items, uris
        return known[1]

    async def _parsed(self, server: str, items: Items) -> list[UriTemplate]:
        async with self._parsing:
            known = self._templates.get(server)
            if known is None or known[0] is not items:
                parsed: list[UriTemplate] = []
                await in_turns(items, partial(_parse, parsed))
                known = self._templates[server] = items, parsed
            return known[1]

    def _naming(self, key: str) -> Callable[[str, dict[str, Any]], str | None]:
        def named(server: str, item: dict[str, Any]) -> str | None:
            original: object = item.get(key)
            is_known = isinstance(original, str) and not self._uris.hides(original)
            return self._uris.exposed(server, str(original)) if is_known else None

        return named

    def _sees(self, visibility: Visibility, server: str, shown: str) -> bool:
        try:
            return visibility.sees_of(server, shown, self._hub.server(server).config.tags)
        except ServerNotFoundError:
            return False


def _unknown(caller: CallerContext, uri: str, words: str | None = None) -> RpcError:
    code = INVALID_PARAMS if caller.client.era == "modern" else _NOT_FOUND
    return RpcError(code, words or "Resource not found", {"uri": uri})


def _with_uri(item: Any, key: str, seen: Seen) -> dict[str, Any]:
    return {**seen[item][1], key: item} if isinstance(item, str) else item


def _parse(found: list[UriTemplate], item: dict[str, Any]) -> bool:
    with suppress(InvalidUriTemplate, ValueError):
        found.append(UriTemplate.parse(str(item.get("uriTemplate"))))
    return False


def _fits(template: UriTemplate, uri: str) -> bool:
    try:
        return template.match(uri) is not None
    except ValueError:
        return False
