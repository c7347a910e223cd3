"""Surfaces: the tools in `tools/list` on the search and full surfaces, in a fixed order."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mcp_types import INVALID_PARAMS

from pegboard.gateway.builtin_tool import SKILL_TOOL, BuiltinTool, CallerContext
from pegboard.gateway.catalog.tool_list import NO_CURSOR, Definition, ToolList, definition_of
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.request import Client, RpcError, object_in
from pegboard.gateway.scopes import own_names
from pegboard.gateway.visibility import Visibility
from pegboard.model import Tool
from pegboard.model.tool_names import name_matcher
from pegboard.policies import holds
from pegboard.policies.access import METHODS

__all__ = ["Surfaces"]

_ALWAYS_LOAD = "anthropic/alwaysLoad"
_HAS_TASK_SUPPORT = "2025-11-25"
"""The one version of the protocol whose definitions say it."""


class Surfaces:
    """The search surface and the full surface of one catalogue.

    Args:
        tools: the catalogue.
        own: the gateway's own tools, in the order of the list.
        options: the pinned tools, and the page size.
        shows_skills: tells whether there is a skill that a client may see.
    """

    def __init__(
        self,
        tools: ToolList,
        own: Iterable[BuiltinTool],
        options: GatewayOptions,
        *,
        shows_skills: Callable[[Visibility], bool],
    ) -> None:
        self._tools = tools
        self._own: Mapping[str, BuiltinTool] = {it.definition.name: it for it in own}
        self._definitions = {name: definition_of(it.definition) for name, it in self._own.items()}
        self._options = options
        self._shows_skills = shows_skills
        self._is_pinned = name_matcher("pinned", options.pinned) if options.pinned else None

    def page(self, caller: CallerContext, cursor: object) -> dict[str, Any]:
        """Return one page of `tools/list`.

        Raises:
            RpcError: when the cursor is invalid.
        """
        client = caller.client
        taken = own_names(client.face, self._options)
        own = [
            self._definitions[name]
            for name in self._own
            if name in taken and holds(client.principal, METHODS[name])
        ]
        if SKILL_TOOL in taken and not self._shows_skills(caller.visibility):
            own = [it for it in own if it["name"] != SKILL_TOOL]
        if client.face.surface == "search":
            if cursor not in (None, ""):
                # The list has one page, so the gateway has given out no cursor.
                raise RpcError(INVALID_PARAMS, NO_CURSOR)
            page, more = self._pinned(caller), None
        else:
            size = self._options.page_size
            page, more = self._tools.page(caller.visibility, cursor, size, hidden=taken)
            pinned = self._is_pinned
            if pinned is not None:
                page = [_always_loaded(it) if pinned(it["name"]) else it for it in page]
        if not self.relays(client):
            page = [_without_output(it) for it in page]
        if self._options.tasks and client.version == _HAS_TASK_SUPPORT:
            own = [_as_task(it) if it["name"] == "call_tool" else it for it in own]
            page = list(map(_as_task, page))
        listed: dict[str, Any] = {"tools": [*own, *page] if cursor in (None, "") else page}
        if more is not None:
            listed["nextCursor"] = more
        return listed

    def is_fixed(self, client: Client) -> bool:
        """Tell whether a client gets the same list whatever tools there are."""
        return client.face.surface == "search" and self._is_pinned is None

    def own(self, name: object, client: Client) -> BuiltinTool | None:
        """Return the gateway's own tool of this name on the surface of a client, or ``None``."""
        if isinstance(name, str) and name in own_names(client.face, self._options):
            return self._own[name]
        return None

    def lists_any(self, tools: Iterable[Tool], client: Client, visibility: Visibility) -> bool:
        """Tell whether the list of a client has one of these tools."""
        if self.is_fixed(client):
            return False
        pinned = self._is_pinned if client.face.surface == "search" else None
        taken = own_names(client.face, self._options)
        return any(
            tool.name not in taken
            and (pinned is None or pinned(tool.name))
            and visibility.sees(tool)
            for tool in tools
        )

    def relays(self, client: Client) -> bool:
        """Tell whether a client gets results whole, however large."""
        return client.face.surface == "full" and not self._options.result_cache_on_full

    def _pinned(self, caller: CallerContext) -> list[dict[str, Any]]:
        pinned = self._is_pinned
        if pinned is None:
            return []
        return [
            _always_loaded(self._tools.definition(tool))
            for tool in self._tools.seen(caller.visibility)
            if pinned(tool.name) and tool.name not in self._own
        ]


def _always_loaded(definition: Definition) -> Definition:
    """Return a definition that a client which loads tools only when needed loads at once."""
    return {**definition, "_meta": {**object_in(definition.get("_meta")), _ALWAYS_LOAD: True}}


def _as_task(definition: Definition) -> Definition:
    """Return a definition that says that each call may be a task, whatever its server can do."""
    return {**definition, "execution": {"taskSupport": "optional"}}


def _without_output(definition: Definition) -> Definition:
    """Return a definition without an output schema, because a cut result has no structured content.

    Clients refuse a result without structured content if the definition has an output schema.
    """
    return {key: value for key, value in definition.items() if key != "outputSchema"}
