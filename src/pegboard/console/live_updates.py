"""Live updates: tells open pages by server-sent events that what they show has changed."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic

import anyio
import anyio.to_thread
from starlette.responses import Response, StreamingResponse
from starlette.types import Scope

from pegboard.console.console_sessions import ConsoleSession
from pegboard.console.request import PageRequest
from pegboard.console.sources import Sources
from pegboard.policies.fair_share import FairShare

__all__ = ["LiveUpdates"]

_LOOK = 1.0
"""How many seconds lie between two looks; a page is told at most so often."""
_SIGN_OF_LIFE = 15
"""After so many looks without a change, a comment keeps the connection open."""
MOST_STREAMS = 200


class LiveUpdates:
    """Looks at cheap signs of change, and only while a page is open.

    Args:
        sources: where the signs are read.
        session_of: finds the session of a request, if it has not ended.
    """

    def __init__(
        self, sources: Sources, session_of: Callable[[Scope], Awaitable[ConsoleSession | None]]
    ) -> None:
        self._sources = sources
        self._session_of = session_of
        self._open: set[anyio.Event] = set()
        self._shares = FairShare("streams of pages", MOST_STREAMS)
        self._log: tuple[float, int] = (0.0, 0)

    async def stream(self, page: PageRequest) -> Response:
        """Return the stream of one page, until its browser leaves or the gateway stops."""
        page.need("read")
        if not self._shares.admits((page.principal.tenant, page.principal.subject)):
            return Response(status_code=429, headers={"retry-after": "10"})
        return StreamingResponse(self._events(page), media_type="text/event-stream")

    def end(self) -> None:
        """End all streams."""
        for ended in self._open:
            ended.set()

    async def _events(self, page: PageRequest) -> AsyncGenerator[str]:
        ended = anyio.Event()
        holder = page.principal.tenant, page.principal.subject
        self._open.add(ended)
        self._shares.add(holder)
        # The request of the page is over, but its tenant must stay open.
        with page.tenant:
            try:
                seen, quiet = await self._signs(page), 0
                yield "retry: 3000\n\n"
                while not ended.is_set():
                    with anyio.move_on_after(_LOOK):
                        await ended.wait()
                    now = await self._signs(page)
                    quiet += 1
                    if now == seen and quiet < _SIGN_OF_LIFE:
                        continue
                    if await self._session_of(page.request.scope) is None:
                        return
                    yield "event: changed\ndata:\n\n" if now != seen else ":\n\n"
                    seen, quiet = now, 0
            finally:
                self._open.discard(ended)
                self._shares.remove(holder)

    async def _signs(self, page: PageRequest) -> object:
        """Return values that change whenever a page may show something else.

        A person must not learn from them that others do something.
        """
        tenant, sources = page.tenant, self._sources
        own = page.principal.tenant, page.principal.subject
        states = [
            (it.name, it.state, it.tool_count)
            for it in tenant.hub.servers.values()
            if page.visibility.knows_server(it.name)
        ]
        asked = [
            (it.id, it.key)
            for it in sources.gateway.questions()
            if page.operates or (it.tenant, it.subject) == own
        ]
        numbers = sum(sum(it.values()) for it in sources.numbers().values()) if page.operates else 0
        running = sum(
            page.operates or (it.caller.get("tenant"), it.caller.get("subject")) == own
            for it in sources.running()
        )
        clients = len(sources.gateway.clients(own[0])) if page.may("admin") else 0
        log = await self._length_of_log(page)
        return tenant.tools.revision, states, numbers, asked, running, clients, log

    async def _length_of_log(self, page: PageRequest) -> int:
        """Return how long the log is that a person may read; looked at once for all pages."""
        folder = self._sources.log_of(page.principal.tenant) if page.operates else None
        if folder is None:
            return 0
        now = monotonic()
        if now - self._log[0] >= _LOOK:
            self._log = now, self._log[1]
            self._log = now, await anyio.to_thread.run_sync(_length, folder)
        return self._log[1]


def _length(folder: Path) -> int:
    with suppress(OSError), os.scandir(folder) as files:
        return sum(it.stat().st_size for it in files)
    return 0
