"""DisconnectWatcher: looks after requests that take long."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Self

import anyio
import anyio.abc

from pegboard.server.http.request import HttpRequest
from pegboard.server.http.response_stream import ResponseStream

__all__ = ["DisconnectWatcher"]


class DisconnectWatcher:
    """Notices when a client goes before it is answered, and keeps its line open until then.

    A client whose credential is taken back meanwhile is let go, too.

    Only requests that are not answered at once get a task of their own for that: most are, and
    for them a task would be half of the work.
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
        """Watch for as long as this is open; then everything that still runs is cancelled."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._look_around)
            yield self
            self.cancel_all()
            self._tasks.cancel_scope.cancel()

    @property
    def running(self) -> int:
        """How many requests are being answered."""
        return len(self._running)

    def begin(self, stream: ResponseStream, request: HttpRequest) -> None:
        """Take note of a request."""
        self._running.add(stream)
        self._new[stream] = (anyio.current_time(), request)
        if len(self._new) == 1:
            self._arrival.set()

    def end(self, stream: ResponseStream) -> None:
        """Take note that it is answered."""
        self._running.discard(stream)
        self._new.pop(stream, None)

    def cancel_all(self) -> None:
        """Stop the work for all requests."""
        for stream in self._running:
            stream.scope.cancel()

    async def _look_around(self) -> None:
        while True:
            await self._arrival.wait()
            self._arrival = anyio.Event()
            while self._new:
                await anyio.sleep(self._after)
                for stream, request in self._take_slow():
                    self._tasks.start_soon(self._attend, stream, request)

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

    async def _attend(self, stream: ResponseStream, request: HttpRequest) -> None:
        while not stream.is_over:
            with anyio.move_on_after(self._ping_every):
                # Also sent when the answer is complete.
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                if not stream.is_over:
                    stream.client_left()
                return
            if not await self._still_admits(request):
                stream.abandon()
            await stream.ping()
