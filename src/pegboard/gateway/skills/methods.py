"""SkillMethods: `skills/list`, `skills/get` and `resources/directory/read` for clients."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from anyio.lowlevel import checkpoint
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

from pegboard.errors import ProtocolError, ServerNotFoundError, SkillNotFoundError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.catalog.tool_list import NO_CURSOR
from pegboard.gateway.errors import rpc_error_of
from pegboard.gateway.request import RpcError, object_in, parts_in
from pegboard.gateway.resource_uris import ResourceUris
from pegboard.gateway.skills.catalog import SkillCatalog, shown_entry
from pegboard.gateway.skills.listings import CacheHints, SkillListings
from pegboard.hub import Hub
from pegboard.model.hidden_characters import visible_json
from pegboard.model.principal import ANONYMOUS, LOCAL
from pegboard.skills import Skill
from pegboard.skills.folder import media_type

__all__ = ["SkillMethods"]

_FOLDER = "inode/directory"
_MOST_ASKED = 16
"""How many servers without a prefix are asked for a skill that no list has."""
_LONGEST_URI = 8192


class SkillMethods:
    """The methods of the extension for the clients of one tenant.

    Args:
        hub: its servers have the skills.
        listings: the cached lists.
        catalog: who may see which skill.
        uris: the URIs of resources in the gateway.
        ttl_ms: how long a client may cache a list, at most.
    """

    def __init__(
        self,
        hub: Hub,
        listings: SkillListings,
        catalog: SkillCatalog,
        uris: ResourceUris,
        *,
        ttl_ms: int,
    ) -> None:
        self._hub = hub
        self._listings = listings
        self._catalog = catalog
        self._uris = uris
        self._ttl_ms = ttl_ms

    @property
    def are_offered(self) -> bool:
        """Tell whether there is a folder of skills, or a server that may have some."""
        return bool(self._listings.sources())

    async def page(self, caller: CallerContext, *, size: int) -> dict[str, Any]:
        """Return one page of `skills/list`.

        Raises:
            RpcError: when the cursor is invalid.
        """
        await self._listings.current()
        page = self._catalog.page(caller.visibility, caller.request.params.get("cursor"), size=size)
        return {**page, **self._catalog.hints(self._most(caller)).fields()}

    async def get(self, caller: CallerContext) -> dict[str, Any]:
        """Return the entry of one skill, also of one that its server does not list.

        Raises:
            RpcError: when there is no such skill that the client may see.
            UpstreamError: when its server cannot be reached.
        """
        uri = _uri_in(caller)
        await self._listings.look_at_folder()
        await self._listings.current(wakes=False)
        found = self._catalog.at(uri, caller.visibility)
        if found is not None and self._listings.is_fresh(found.skill.server):
            hints = self._listings.known()[found.skill.server][1]
            return self._entry(found.skill, hints, caller)
        for server, original in self._origins(uri, caller):
            try:
                skill, hints = await self._listings.get(server, original)
            except SkillNotFoundError:
                continue
            return self._entry(skill, hints, caller)
        raise RpcError(INVALID_PARAMS, f"No skill is served at {uri[:200]}", {"uri": uri})

    async def read_directory(self, caller: CallerContext) -> dict[str, Any]:
        """Return the direct children of a folder of a skill.

        The server lists them if it can; otherwise they follow from the entry of the skill.

        Raises:
            RpcError: when the URI is no folder that the client may see.
            UpstreamError: when its server cannot be reached.
        """
        uri = _uri_in(caller)
        await self._listings.look_at_folder()
        await self._listings.current(wakes=False)
        local = self._children(None, uri, caller)
        if local is not None:
            caller.visibility.check_use(None, uri)
            return local
        for server, original in self._origins(uri, caller):
            caller.visibility.check_use(server, self._catalog.exposed(server, original))
            found = await self._directory(server, original, caller)
            if found is not None:
                return found
        raise RpcError(INVALID_PARAMS, f"{uri[:200]} is not a directory resource", {"uri": uri})

    async def _directory(
        self, server: str, original: str, caller: CallerContext
    ) -> dict[str, Any] | None:
        if not self._listings.reads_directories(server):
            return self._children(server, original, caller)
        params = {"uri": original}
        cursor: object = caller.request.params.get("cursor")
        if isinstance(cursor, str):
            params["cursor"] = cursor[:_LONGEST_URI]
        try:
            result = await self._hub.server(server).request("resources/directory/read", params)
        except ProtocolError as error:
            if error.rpc_code in (INVALID_PARAMS, METHOD_NOT_FOUND):
                return None
            raise rpc_error_of(error, caller.client.principal) from error
        shown: list[object] = []
        for item in parts_in(result.get("resources")) or ():
            await checkpoint()
            plain = object_in(visible_json(item))
            # A client sends the URI back as it is, so one that hides something is left out.
            if plain.get("uri") == object_in(item).get("uri"):
                there = self._uris.in_item(plain, server)
                shown += [there] if self._sees(server, there, caller) else []
        # Whatever the server says: what is shown here depends on the caller.
        return {**result, "resources": shown, "cacheScope": "private"}

    def _sees(self, server: str | None, item: object, caller: CallerContext) -> bool:
        uri: object = object_in(item).get("uri")
        return isinstance(uri, str) and self._catalog.sees_uri(server, uri, caller.visibility)

    def _children(
        self, source: str | None, folder: str, caller: CallerContext
    ) -> dict[str, Any] | None:
        """Return what a folder has, by the entries of the skills of its server."""
        known = self._listings.known().get(source)
        skills: Mapping[str, Skill] = {} if known is None else known[0]
        start = f"{folder}/"
        found: dict[str, dict[str, Any]] = {}
        for skill in _within(skills, start):
            # All files of a skill further down are behind the same step.
            is_below = skill.files is not None and skill.root.startswith(start)
            for place in (skill.uri,) if is_below else skill.files or ():
                name, _, rest = place.removeprefix(start).partition("/")
                if not place.startswith(start) or name in found:
                    continue
                uri = self._catalog.exposed(source, f"{start}{name}")
                kind = _FOLDER if rest else media_type(name)
                item = {"uri": uri, "name": unquote(name), "mimeType": kind}
                if self._sees(source, item, caller):
                    found[name] = item
        if not found:
            return None
        if caller.request.params.get("cursor") not in (None, ""):
            # The list has one page, so the gateway has given out no cursor.
            raise RpcError(INVALID_PARAMS, NO_CURSOR)
        return {"resources": [found[name] for name in sorted(found)]}

    def _entry(self, skill: Skill, hints: CacheHints, caller: CallerContext) -> dict[str, Any]:
        merged = self._most(caller).merged([hints])
        return {"skill": shown_entry(skill, self._catalog), **merged.fields()}

    def _origins(self, uri: str, caller: CallerContext) -> list[tuple[str, str]]:
        """Return the servers that may have a skill or a folder, with its URI there."""
        if not _is_plain(uri):
            return []
        ours = self._uris.origin(uri)
        if ours is not None:
            # One URI may be written in several ways, and access is decided by one of them.
            return [ours] if self._may_have(ours[0], self._uris.exposed(*ours), caller) else []
        bare = (it.config.name for it in self._hub.enabled_servers() if it.config.prefix == "")
        names = [name for name in bare if self._may_have(name, uri, caller)]
        return [(name, uri) for name in names[:_MOST_ASKED]]

    def _may_have(self, server: str, uri: str, caller: CallerContext) -> bool:
        try:
            if not self._hub.server(server).config.enabled:
                return False
        except ServerNotFoundError:
            return False
        sees = self._catalog.sees_uri(server, uri, caller.visibility)
        return sees and self._listings.offers(server)

    def _most(self, caller: CallerContext) -> CacheHints:
        # With credentials, what one caller sees is not for others.
        is_alone = caller.client.principal in (LOCAL, ANONYMOUS)
        return CacheHints(self._ttl_ms, is_public=is_alone)


def _within(skills: Mapping[str, Skill], start: str) -> list[Skill]:
    """Return the skills that have something in a folder, or are somewhere below it."""
    found = skills.values()
    return [it for it in found if start.startswith(f"{it.root}/") or it.uri.startswith(start)]


def _is_plain(uri: str) -> bool:
    """Tell whether no step of a URI leads to another folder than the URI says."""
    return {".", ".."}.isdisjoint(unquote(uri).split("/"))


def _uri_in(caller: CallerContext) -> str:
    uri: object = caller.request.params.get("uri")
    if not isinstance(uri, str) or len(uri) > _LONGEST_URI:
        raise RpcError(INVALID_PARAMS, f"`{caller.request.method}` takes a `uri`, a string.")
    return uri
