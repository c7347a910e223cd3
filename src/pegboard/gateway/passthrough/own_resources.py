"""Resources of the gateway itself: what there is, in numbers."""

from functools import partial
from typing import Any

import anyio.to_thread
import msgspec

from pegboard.errors import StorageError
from pegboard.gateway.builtin_tool import CATEGORIES, OWN_RESOURCES, STATS, CallerContext
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.model.tool import categories_of
from pegboard.registry import Registry

__all__ = ["OwnResources"]

_MOST_USED = 10


class OwnResources:
    """``registry://stats`` and ``registry://categories``: each caller's own part of them."""

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
        """Tell whether an address is one of them."""
        return uri in OWN_RESOURCES

    async def read(self, uri: str, caller: CallerContext) -> dict[str, Any] | None:
        """Return what one of them holds; ``None`` when it is none of them."""
        if not self.has(uri):
            return None
        tools = {tool.name: tool for tool in self._tools.seen(caller.visibility)}
        categories = categories_of(tools.values())
        if uri == CATEGORIES:
            held: dict[str, Any] = {"categories": categories}
        else:
            held = {
                "tools": len(tools),
                "categories": len(categories),
                "servers": len({tool.server for tool in tools.values() if tool.server}),
                "most_used": await self._most_used(list(tools)),
            }
        text = msgspec.json.encode(held).decode()
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}

    async def _most_used(self, names: list[str]) -> list[dict[str, Any]]:
        if self._registry.storage is None:
            return []
        try:
            usage = await anyio.to_thread.run_sync(partial(self._registry.usage, names))
        except (StorageError, TypeError):
            # Numbers are no reason to fail, and the storage may just have been closed.
            return []
        used = sorted(usage.items(), key=lambda it: (-it[1].use_frequency, it[0]))
        return [
            {"name": name, "uses": use.use_frequency}
            for name, use in used[:_MOST_USED]
            if use.use_frequency
        ]
