"""SearchHints: the servers, categories and tags that there are for a caller."""

from typing import TYPE_CHECKING, NamedTuple

from anyio.to_thread import run_sync

from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.visibility import Visibility
from pegboard.model.tool import categories_of

if TYPE_CHECKING:
    from pegboard.model import Principal

__all__ = ["SearchHints", "Seen"]

_MOST = 256


class Seen(NamedTuple):
    """What one caller may be pointed to."""

    hints: frozenset[str]
    """As a search names them: ``server: github``, ``tag: code``."""
    categories: list[str]
    """The largest first."""


class SearchHints:
    """Looks through a catalogue once for each caller and change of it."""

    def __init__(self, tools: ToolList) -> None:
        self._tools = tools
        self._known: dict[tuple[Principal, str | None], tuple[int, Seen]] = {}

    async def around(self, caller: CallerContext) -> Seen:
        """Return what exists for a caller."""
        client, revision = caller.client, self._tools.revision
        key = (client.principal, client.face.group)
        known = self._known.get(key)
        if known is not None and known[0] == revision:
            return known[1]
        seen = await run_sync(self._look, caller.visibility)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = (revision, seen)
        return seen

    def _look(self, visibility: Visibility) -> Seen:
        tools = list(self._tools.seen(visibility))
        hints = {f"server: {tool.server}" for tool in tools}
        hints |= {f"category: {tool.category}" for tool in tools}
        hints |= {f"tag: {tag}" for tool in tools for tag in tool.tags}
        counts = categories_of(tools)
        return Seen(frozenset(hints), sorted(counts, key=lambda it: -counts[it]))
