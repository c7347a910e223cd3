"""The stdio transport to a server: a session over the pipes of its process."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from pegboard.config.servers import ServerConfig
from pegboard.upstream.events import ServerLogger
from pegboard.upstream.messages.channel import DuplexChannel, Receive
from pegboard.upstream.stdio.pipes import StdinWriter, StdoutReader
from pegboard.upstream.stdio.process import GRACE, ServerProcess, background, spawn

__all__ = ["MAX_LINE_BYTES", "stdio_channel"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The most bytes of one message of a server."""
_LAST_MOMENT = 0.25


@asynccontextmanager
async def stdio_channel(
    config: ServerConfig,
    *,
    receive: Receive,
    on_lost: Callable[[str], None],
    max_line_bytes: int = MAX_LINE_BYTES,
    log: ServerLogger | None = None,
    grace: float = GRACE,
) -> AsyncGenerator[DuplexChannel]:
    """Start the server and yield the channel over its pipes; leaving stops the server.

    ``receive`` gets the notifications and requests of the server. ``on_lost`` is called once, with
    the reason, when the server goes away by itself. ``log`` gets its standard error.

    Raises:
        ServerUnavailableError: when the server cannot be started.
    """
    async with spawn(config, grace=grace, log=log) as process, background() as tasks:
        loss = _Loss(process)
        writer = StdinWriter(process.stdin, gone=process.exited, lose=loss.declare)
        channel = DuplexChannel(
            config.name, writer.write, receive, most_values=config.max_response_values
        )
        reader = StdoutReader(
            config,
            process.stdout,
            channel=channel,
            lose=loss.declare,
            start_soon=tasks.start_soon,
            max_line_bytes=max_line_bytes,
        )

        async def tell_when_lost() -> None:
            reason = await loss.reason(reader)
            told.set()
            try:
                on_lost(reason)
            except Exception:
                name = config.name
                logger.exception("on_lost_failed: server %r", name, extra={"server": name})
            end()

        def end() -> None:
            reader.end()
            channel.close(reader.why_lost)
            writer.end()

        told = anyio.Event()
        tasks.start_soon(tell_when_lost)
        try:
            yield channel
        finally:
            if loss.is_declared:
                # A session that failed at the first write still needs the reason.
                with anyio.move_on_after(2 * _LAST_MOMENT, shield=True):
                    await told.wait()
            # First, so that our own shutdown is not taken for a loss.
            tasks.cancel_scope.cancel()
            end()


class _Loss:
    """Whether the server is lost, and why."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self._declared = anyio.Event()
        self._reason: str | None = None

    @property
    def is_declared(self) -> bool:
        """True once a pipe has ended or the process is gone."""
        return self._declared.is_set()

    def declare(self, reason: str | None) -> None:
        """Note that a pipe ended; without a reason, the exit of the process may be the reason."""
        if not self._declared.is_set():
            self._reason = reason
            self._declared.set()

    async def reason(self, reader: StdoutReader) -> str:
        """Wait for the loss and return the reason."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_exit)
            await self._declared.wait()
            tasks.cancel_scope.cancel()
        if self._reason is not None:
            return self._reason
        # A dying process closes its pipes a moment before its exit code is known.
        with anyio.move_on_after(_LAST_MOMENT):
            await self._process.exited.wait()
        await reader.read_what_is_left()
        words = self._process.describe_exit()
        return words if self._process.exited.is_set() else f"closed its pipes, but {words}"

    async def _watch_exit(self) -> None:
        await self._process.exited.wait()
        self.declare(None)
