"""What all adapters need to call servers: one event loop, turns, invalid results, redaction."""

import asyncio  # noqa: TID251 - this file reaches one event loop from another
import os
import shutil
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread

from pegboard.config import ServerConfig
from pegboard.errors import ProtocolError, ServerUnavailableError, WouldDeadlockError
from pegboard.policies.concurrency import blocked_threads
from pegboard.registry.background_loop import on_background_loop, run_in_background

__all__ = ["Turns", "in_background", "reading_result", "shown_target", "starting_program"]

T = TypeVar("T")


class _ProgramNotFoundError(ServerUnavailableError, FileNotFoundError):
    """The program of a local server does not exist."""


class _ProgramNotAllowedError(ServerUnavailableError, PermissionError):
    """The program of a local server cannot be executed."""


class Turns:
    """A fair lock for tasks of any event loop: one at a time, in the order of arrival."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queue: list[_Ticket] = []

    @asynccontextmanager
    async def next(self, *, tool: str = "") -> AsyncGenerator[None]:
        """Wait for the lock, and hold it inside of the context.

        Raises:
            WouldDeadlockError: when the caller blocks an event loop whose turn comes first.
        """
        mine = _Ticket()
        with self._guard:
            if any(ticket.thread in blocked_threads.get() for ticket in self._queue):
                raise WouldDeadlockError(tool)
            self._queue.append(mine)
            self._call_first()
        try:
            await asyncio.wrap_future(mine.called)
            yield
        finally:
            with self._guard:
                self._queue.remove(mine)
                self._call_first()

    def _call_first(self) -> None:
        if self._queue and not self._queue[0].called.done():
            self._queue[0].called.set_result(None)


async def in_background(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run work on Pegboard's background loop and wait for it, from any event loop."""
    if on_background_loop():
        return await work()
    loop = await anyio.to_thread.run_sync(lambda: run_in_background(_current_loop, tool=""))
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))


def shown_target(config: Callable[[], ServerConfig]) -> str:
    """Return the command line or URL of a server without secrets; ``<unusable>`` if it has none."""
    try:
        return config().target
    except Exception:  # noqa: BLE001 - a repr must not fail, nor show what it does not understand
        return "<unusable>"


@asynccontextmanager
async def starting_program(config: ServerConfig) -> AsyncGenerator[None]:
    """Report a program that cannot be started as the operating system does, too.

    Raises:
        FileNotFoundError: when it is not there. Like the next, it is a `ServerUnavailableError`.
        PermissionError: when it cannot be executed.
    """
    try:
        yield
    except ServerUnavailableError as error:
        fault = await anyio.to_thread.run_sync(_fault_of_program, config)
        if fault is None:
            raise
        raise fault(str(error), server=config.name) from error


def _fault_of_program(config: ServerConfig) -> type[ServerUnavailableError] | None:
    where, command = Path(config.cwd or ""), config.command or ""
    command = str(where / command) if os.sep in command else command
    path = config.env.get("PATH")
    if not where.exists() or shutil.which(command, mode=os.F_OK, path=path) is None:
        return _ProgramNotFoundError
    return None if shutil.which(command, path=path) else _ProgramNotAllowedError


@contextmanager
def reading_result(*, server: str, tool: str) -> Generator[None]:
    """Report a result that cannot be read inside of the context as a fault of the server.

    Raises:
        ProtocolError: instead of a TypeError or ValueError.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ProtocolError(
            f"Server {server!r} answered with an invalid result: {reason}.",
            server=server,
            tool=tool,
        ) from error


class _Ticket:
    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.called: Future[None] = Future()
        # From now on it cannot be cancelled: a task that gives up leaves the queue instead.
        self.called.set_running_or_notify_cancel()


async def _current_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
