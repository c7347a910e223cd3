"""Apps: MCP Apps (SEP-1865): the pages of tools, and the tools that only the apps call."""

from collections.abc import Mapping
from typing import Any, cast

from pegboard.errors import ToolNotFoundError
from pegboard.gateway.catalog.tool_list import ToolList, raw_definition
from pegboard.gateway.request import object_in
from pegboard.gateway.resource_uris import FLAT_PAGE, ResourceUris
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model import Tool

__all__ = ["Apps", "definition_with_page"]


class Apps:
    """What clients that show apps get of one hub.

    The gateway cannot know which app a call comes from: the host sends it as it sends the calls of
    its model. So it tells the host whose each tool is, and decides by the caller alone.

    Args:
        hub: its servers have the apps.
        tools: the tools of the servers.
        uris: the URIs of resources in the gateway.
    """

    def __init__(self, hub: Hub, tools: ToolList, uris: ResourceUris) -> None:
        self._hub = hub
        self._tools = tools
        self._uris = uris

    def named(self, original: str, visibility: Visibility) -> Tool | None:
        """Return the tool that an app means by the name that its own server gave the tool.

        Raises:
            ToolNotFoundError: when several servers that the client may see have such a tool; it
                names them. The gateway does not guess which of the apps calls.
        """
        found: dict[str, Tool] = {}
        for server in self._hub.enabled_servers():
            tool = server.feed.tools.get(original)
            if tool is None or not _is_for_apps(server.definition(original)):
                continue
            seen = self._tools.get(tool.name, visibility)
            if seen is not None and seen.server == tool.server:
                found[seen.name] = seen
        if len(found) > 1:
            raise ToolNotFoundError(original, nearest=sorted(found))
        return next(iter(found.values()), None)

    def with_page(self, shown: dict[str, Any], whole: dict[str, Any], tool: Tool) -> dict[str, Any]:
        """Return a result with what a host needs to show the app of its tool.

        Args:
            shown: the result as a model gets it, perhaps cut.
            whole: the result as the server sent it.
            tool: the tool that was called.
        """
        if tool.app_only:
            # No model reads it, and an app can do nothing with a part of it.
            return whole
        said = object_in((definition_with_page(self._hub, self._uris, tool) or {}).get("_meta"))
        if not ("ui" in said or FLAT_PAGE in said):
            return shown
        own = object_in(shown.get("_meta"))
        meta = {**{key: said[key] for key in (FLAT_PAGE,) if key in said}, **own}
        meta["ui"] = {**object_in(said.get("ui")), **object_in(own.get("ui"))}
        if whole.get("structuredContent") is not None:
            # The app draws from it, and hosts that show apps keep it from their model.
            shown = {**shown, "structuredContent": whole["structuredContent"]}
        return {**shown, "_meta": meta}


def definition_with_page(hub: Hub, uris: ResourceUris, tool: Tool) -> Mapping[str, Any] | None:
    """Return a tool as its server defines it, whose page has its URI in the gateway."""
    raw = raw_definition(hub, tool)
    meta = object_in(None if raw is None else raw.get("_meta"))
    if raw is None or tool.server is None or not ("ui" in meta or FLAT_PAGE in meta):
        return raw
    return uris.with_page(raw, tool.server)


def _is_for_apps(raw: Mapping[str, Any] | None) -> bool:
    ui = object_in(object_in((raw or {}).get("_meta")).get("ui"))
    said: object = ui.get("visibility")
    return not isinstance(said, list) or "app" in cast("list[object]", said)
