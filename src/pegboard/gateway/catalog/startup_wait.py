"""StartupWait: lets lists, searches and calls wait for servers that are still starting."""

from collections.abc import Awaitable, Callable, Collection

from pegboard.errors import ToolNotFoundError
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.catalog.unavailable import Unavailable, meant_by, told_of
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model import Tool
from pegboard.search import SearchResponse

__all__ = ["PATIENCE", "StartupWait"]

PATIENCE = 5.0
"""Seconds after the start in which lists, and searches that find nothing, wait for new servers."""

_SHOWN = 5


class StartupWait:
    """Waits for the servers of one hub that are still starting and that the client may see."""

    def __init__(self, hub: Hub, tools: ToolList) -> None:
        self._hub = hub
        self.tools: ToolList = tools
        """The tools of the servers that are up."""

    async def wait(self, visibility: Visibility) -> None:
        """Return once the hub has tried every server, or `PATIENCE` is over.

        A client that asks for a list right after the start may never ask again, so it should get
        the whole list. One server that hangs must not cost more time than that.
        """
        await self._hub.started(self._seen(self._hub.starting, visibility), until=PATIENCE)

    async def search(
        self, search: Callable[[], Awaitable[SearchResponse]], visibility: Visibility
    ) -> SearchResponse:
        """Return what a search finds; wait and repeat the search if it finds nothing."""
        # Read before the search: a server may arrive while it runs, too late for the search.
        awaited = self._seen(self._hub.starting, visibility)
        found = await search()
        if found.hits or not awaited:
            return found
        await self._hub.started(awaited, until=PATIENCE)
        return await search()

    async def find(self, name: object, visibility: Visibility) -> Tool:
        """Return a tool that the client may see; wait for the server that may have it.

        Raises:
            ToolNotFoundError: when there is none; it names servers that may have it but are not up.
        """
        try:
            return self.tools.find(name, visibility)
        except ToolNotFoundError as error:
            if not isinstance(name, str):
                raise
            missing = error
        awaited = [
            it
            for it in self._hub.starting_for(name)
            if visibility.sees_of(it, name, self._hub.server(it).config.tags)
        ]
        if awaited:
            await self._hub.started(awaited)
            try:
                return self.tools.find(name, visibility)
            except ToolNotFoundError as error:
                missing = error
        unavailable = self.unavailable(name, visibility, also=awaited)
        # Of the servers that are starting, the last words tell.
        others = "".join(f" {it}" for it in unavailable if not it.is_starting)
        missing.args = (f"{missing}{others}{self.words(visibility)}",)
        missing.unavailable = tuple(it.data for it in unavailable)
        raise missing

    def unavailable(
        self, text: str, visibility: Visibility, *, also: Collection[str] = ()
    ) -> list[Unavailable]:
        """Return the servers without any tool that a text points to; see `meant_by`."""
        servers = self._hub.unavailable_servers()
        return meant_by(text, servers, visibility, also=also) if servers else []

    def all_unavailable(self, visibility: Visibility) -> list[Unavailable]:
        """Return all servers without any tool that the client may know."""
        return told_of(self._hub.unavailable_servers(), visibility)

    def words(self, visibility: Visibility) -> str:
        """Return a sentence that names the servers still starting; empty if there are none."""
        names = self._known(self._hub.starting, visibility)
        if not names:
            return ""
        count = "1 server is" if len(names) == 1 else f"{len(names)} servers are"
        more = ", …" if len(names) > _SHOWN else ""
        shown = ", ".join(names[:_SHOWN])
        return f" {count} still starting: {shown}{more}; try again in a moment."

    def _known(self, names: list[str], visibility: Visibility) -> list[str]:
        return [it for it in names if visibility.knows_server(it, self._hub.server(it).config.tags)]

    def _seen(self, names: list[str], visibility: Visibility) -> list[str]:
        return [it for it in names if visibility.sees_server(it, self._hub.server(it).config.tags)]
