"""Surfaces: which tools a client is shown, always in the same order."""

from collections.abc import Iterable, Mapping
from typing import Any

from mcp_types import INVALID_PARAMS

from pegboard.gateway.exchange import Client, RpcError
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.own_tool import OwnTool, Visit
from pegboard.gateway.sight import Sight
from pegboard.gateway.tool_list import NO_CURSOR, ToolList, definition_of
from pegboard.model import Tool
from pegboard.model.names import name_matcher
from pegboard.policies import holds
from pegboard.policies.access import METHODS

__all__ = ["Surfaces"]

_ON_FULL = "read_result"


class Surfaces:
    """The faces of one catalogue.

    Args:
        tools: the catalogue.
        own: the gateway's own tools, in the order in which they are listed.
        options: what is pinned, and how long pages are.
    """

    def __init__(self, tools: ToolList, own: Iterable[OwnTool], options: GatewayOptions) -> None:
        self._tools = tools
        self._own: Mapping[str, OwnTool] = {it.definition.name: it for it in own}
        self._definitions = {name: definition_of(it.definition) for name, it in self._own.items()}
        self._options = options
        self._is_pinned = name_matcher("pinned", options.pinned) if options.pinned else None

    def page(self, visit: Visit, cursor: object) -> dict[str, Any]:
        """Return one page of `tools/list`.

        Raises:
            RpcError: when the cursor is none of ours.
        """
        client = visit.client
        own = [self._definitions[name] for name in self._own if self._offers(name, client)]
        if client.face.surface == "search":
            if cursor not in (None, ""):
                # All of it is on one page, so no cursor was given to anybody.
                raise RpcError(INVALID_PARAMS, NO_CURSOR)
            page, more = [*own, *self._pinned(visit)], None
        else:
            page, more = self._tools.page(visit.sight, cursor, self._options.page_size)
            if cursor is None:
                page = [*own, *page]
        listed: dict[str, Any] = {"tools": page}
        if more is not None:
            listed["nextCursor"] = more
        return listed

    def is_fixed(self, client: Client) -> bool:
        """Tell whether a client is shown the same list whatever tools there are."""
        return client.face.surface == "search" and self._is_pinned is None

    def own(self, name: object, client: Client) -> OwnTool | None:
        """Return a tool of the gateway itself, if this client has it."""
        tool = self._own.get(name) if isinstance(name, str) else None
        return tool if tool is not None and self._offers(tool.definition.name, client) else None

    def lists_any(self, tools: Iterable[Tool], client: Client, sight: Sight) -> bool:
        """Tell whether one of these tools is listed on the face of a client."""
        pinned = self._is_pinned
        if client.face.surface == "full":
            return any(sight.sees(tool) for tool in tools)
        if pinned is None:
            return False
        return any(pinned(tool.name) and sight.sees(tool) for tool in tools)

    def relays(self, client: Client) -> bool:
        """Tell whether results are sent whole on the face of a client, however large."""
        return client.face.surface == "full" and not self._options.shelves_on_full

    def _offers(self, name: str, client: Client) -> bool:
        on_full = self._options.shelves_on_full and name == _ON_FULL
        if client.face.surface == "full" and not on_full:
            return False
        return holds(client.principal, METHODS[name])

    def _pinned(self, visit: Visit) -> list[dict[str, Any]]:
        pinned = self._is_pinned
        if pinned is None:
            return []
        return [
            self._tools.definition(tool)
            for tool in self._tools.seen(visit.sight)
            if pinned(tool.name) and tool.name not in self._own
        ]
