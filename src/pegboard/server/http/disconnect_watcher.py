"""DisconnectWatcher: cancel a long request when its client disconnects, and send it pings."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Self

import anyio
import anyio.abc

from pegboard.server.http.request import HttpRequest
from pegboard.server.http.response_stream import ResponseStream

__all__ = ["DisconnectWatcher"]


class DisconnectWatcher:
    """Notices when a client disconnects before its response, and pings it until then.

    It also ends the request of a client whose credential is revoked meanwhile.

    Only requests that take some time get a task of their own for this: most do not, and for them
    a task would be half of the work.
    """

    def __init__(
        self,
        still_admits: Callable[[HttpRequest], Awaitable[bool]],
        *,
        after: float = 0.1,
        ping_every: float = 15.0,
    ) -> None:
        self._still_admits = still_admits
        self._after = after
        self._ping_every = ping_every
        self._new: dict[ResponseStream, tuple[float, HttpRequest]] = {}
        self._running: set[ResponseStream] = set()
        self._tasks: anyio.abc.TaskGroup
        self._arrival = anyio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Self]:
        """Watch for as long as this is open; then all running requests are cancelled."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._watch_new)
            yield self
            self.cancel_all()
            self._tasks.cancel_scope.cancel()

    @property
    def running(self) -> int:
        """How many requests are running."""
        return len(self._running)

    def begin(self, stream: ResponseStream, request: HttpRequest, *, is_long: bool = False) -> None:
        """Start watching a request; one that certainly takes long is watched from the beginning."""
        self._running.add(stream)
        if is_long:
            self._tasks.start_soon(self._watch, stream, request)
            return
        self._new[stream] = (anyio.current_time(), request)
        if len(self._new) == 1:
            self._arrival.set()

    def end(self, stream: ResponseStream) -> None:
        """Stop watching a request that has its response."""
        self._running.discard(stream)
        self._new.pop(stream, None)

    def cancel_all(self) -> None:
        """Cancel all running requests."""
        for stream in self._running:
            stream.scope.cancel()

    async def _watch_new(self) -> None:
        while True:
            await self._arrival.wait()
            self._arrival = anyio.Event()
            while self._new:
                await anyio.sleep(self._after)
                for stream, request in self._take_slow():
                    self._tasks.start_soon(self._watch, stream, request)

    def _take_slow(self) -> list[tuple[ResponseStream, HttpRequest]]:
        limit = anyio.current_time() - self._after
        slow: list[tuple[ResponseStream, HttpRequest]] = []
        for stream, (since, request) in self._new.items():
            if since > limit:
                break
            slow.append((stream, request))
        for stream, _ in slow:
            del self._new[stream]
        return slow

    async def _watch(self, stream: ResponseStream, request: HttpRequest) -> None:
        while not stream.is_over:
            with anyio.move_on_after(self._ping_every):
                # Starlette also sends this when the response is complete.
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                if not stream.is_over:
                    stream.client_left()
                return
            if not await self._still_admits(request):
                stream.abandon()
            await stream.ping()
