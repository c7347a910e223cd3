"""ToolList: the visible tools of a registry by name, and `tools/list` pagination by cursor."""

import base64
import threading
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from mcp_types import INVALID_PARAMS

from pegboard.errors import ServerNotFoundError, ToolNotFoundError
from pegboard.gateway.request import RpcError
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model import CatalogChange, Tool
from pegboard.model.tool import Definition, definition_of
from pegboard.model.tool_names import MAX_READ, nearest_names
from pegboard.registry import Registry

__all__ = [
    "NO_CURSOR",
    "Definition",
    "ToolList",
    "cursor_after",
    "definition_of",
    "position_of",
    "raw_definition",
]

_SORTED_AT_ONCE = 4096
NO_CURSOR = "This cursor is invalid; list from the start."


class ToolList:
    """A copy of the catalogue of a registry that follows its changes, so that a lookup is cheap.

    Args:
        registry: the registry to follow.
        raw: returns the definition of a tool as its server wrote it, if it has one.
    """

    def __init__(self, registry: Registry, raw: Callable[[Tool], Mapping[str, Any] | None]) -> None:
        self._registry = registry
        self._raw = raw
        self._tools: dict[str, Tool] = {}
        self._names: list[str] | None = None
        self.revision: int = 0
        """Grows with every change."""
        self._changing = threading.Lock()
        with self._changing:
            self.close: Callable[[], None] = registry.subscribe(self._take_in)
            self._tools.update((tool.name, tool) for tool in registry.tools())

    def __len__(self) -> int:
        return len(self._tools)

    def find(self, name: object, visibility: Visibility) -> Tool:
        """Return a tool that a client may see.

        Raises:
            ToolNotFoundError: when there is none; it names similar tools that the client may see.
        """
        tool = self.get(name, visibility)
        if tool is None:
            raise ToolNotFoundError(name, nearest=self._nearest(name, visibility))
        return tool

    def get(self, name: object, visibility: Visibility) -> Tool | None:
        """Return a tool that a client may see, or ``None``; it looks for no similar names."""
        tool = self._tools.get(name) if isinstance(name, str) else None
        return tool if tool is not None and visibility.sees(tool) else None

    def definition(self, tool: Tool) -> Definition:
        """Return the MCP definition of a tool, with every field that its server sent."""
        return definition_of(tool, self._raw(tool))

    def is_definition(self, tool: Tool) -> bool:
        """Tell whether a tool is only a definition that the gateway cannot run."""
        return self._registry.is_definition(tool.name)

    def mark(self, tool: Tool) -> str:
        """Return the mark at the end of a tool's line if the gateway cannot run the tool."""
        return "" if self._registry.runs(tool.name) else " [definition only]"

    def seen(self, visibility: Visibility) -> Iterable[Tool]:
        """Return the tools that a client may see, sorted by name."""
        tools, apps = self._tools, visibility.apps
        found = (tool for name in self._sorted() if (tool := tools.get(name)) is not None)
        every = (tool for tool in found if apps or not tool.app_only)
        return every if visibility.visible is None else filter(visibility.visible, every)

    def page(
        self, visibility: Visibility, cursor: object, size: int, *, hidden: Container[str] = ()
    ) -> tuple[list[Definition], str | None]:
        """Return the definitions of one page, without the hidden ones, and the cursor of the next.

        Raises:
            RpcError: when the cursor is invalid.
        """
        after = position_of(cursor)
        names, tools = self._sorted(), self._tools
        page: list[Definition] = []
        last = ""
        for index in range(bisect_right(names, after) if after else 0, len(names)):
            tool = tools.get(names[index])
            if tool is None or tool.name in hidden or not visibility.sees(tool):
                continue
            if len(page) == size:
                return page, cursor_after(last)
            page.append(self.definition(tool))
            last = tool.name
        return page, None

    def _nearest(self, name: object, visibility: Visibility) -> list[str]:
        """Return similar names that a client may see; of very many, only those that sort near."""
        # A model reads these names.
        visibility = visibility.for_models()
        names, tools, readable = self._sorted(), self._tools, visibility.to("read")
        if isinstance(name, str) and len(names) > MAX_READ:
            start = max(0, bisect_right(names, name) - MAX_READ // 2)
            names = names[start : start + MAX_READ]

        def may_tell(name: str) -> bool:
            tool = tools.get(name)
            return tool is not None and visibility.sees(tool) and readable.sees(tool)

        return nearest_names(name, names, may_tell=may_tell)

    def _sorted(self) -> list[str]:
        names = self._names
        if names is None:
            # With the lock: otherwise a change during the sort would be lost.
            with self._changing:
                names = self._names = _sorted(list(self._tools))
        return names

    def _take_in(self, change: CatalogChange) -> None:
        with self._changing:
            self.revision += 1
            for tool in change.removed:
                self._tools.pop(tool.name, None)
            for tool in (*change.added, *change.changed):
                self._tools[tool.name] = tool
            if change.added or change.removed:
                self._names = None


def _sorted(names: list[str]) -> list[str]:
    # In parts, which the last step only merges: so no single step takes long, however many.
    parts = range(0, len(names), _SORTED_AT_ONCE)
    ordered = [name for at in parts for name in sorted(names[at : at + _SORTED_AT_ONCE])]
    ordered.sort()
    return ordered


def raw_definition(hub: Hub, tool: Tool) -> Mapping[str, Any] | None:
    """Return the definition of a tool as its server wrote it, or ``None`` without a server."""
    if tool.server is None:
        return None
    try:
        server, original = hub.origin(tool.name)
        return hub.server(server).definition(original)
    except (ToolNotFoundError, ServerNotFoundError):
        # Another thread may just be replacing the tool or its server.
        return None


def cursor_after(position: str) -> str:
    """Return the cursor of the page after a position."""
    encoded = position.encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(encoded).decode("ascii").rstrip("=")


def position_of(cursor: object) -> str:
    """Return the position that a cursor stands for; empty for the first page.

    Raises:
        RpcError: when the cursor is invalid.
    """
    if cursor is None:
        return ""
    try:
        text = cursor if isinstance(cursor, str) else "?"
        padded = text + "=" * (-len(text) % 4)
        position = base64.b64decode(padded, altchars=b"-_", validate=True)
        return position.decode("utf-8", "surrogatepass")
    except ValueError:
        raise RpcError(INVALID_PARAMS, NO_CURSOR) from None
