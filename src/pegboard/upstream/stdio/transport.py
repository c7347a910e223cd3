"""The stdio transport to a server: a session over the pipes of its process."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
from mcp.client._transport import TransportStreams

from pegboard.config.servers import ServerConfig
from pegboard.upstream.stdio.fast_path import StdioFastPath
from pegboard.upstream.stdio.process import GRACE, ServerProcess, background, spawn
from pegboard.upstream.stdio.stdin_writer import NOT_SENT, StdinWriter
from pegboard.upstream.stdio.stdout_reader import StdoutReader

__all__ = ["MAX_LINE_BYTES", "NOT_SENT", "stdio_transport"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The most bytes of one message of a server."""
_LAST_MOMENT = 0.25


@asynccontextmanager
async def stdio_transport(
    config: ServerConfig,
    *,
    on_lost: Callable[[str], None],
    exchanges: StdioFastPath | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    grace: float = GRACE,
) -> AsyncGenerator[TransportStreams]:
    """Start the server and yield the two streams that `mcp.Client` takes; leaving stops it.

    ``on_lost`` is called once, with the reason, when the server goes away by itself.
    ``exchanges`` sends requests without the two streams.

    Raises:
        ServerUnavailableError: when the server cannot be started.
    """
    async with spawn(config, grace=grace) as process, background() as tasks:
        loss = _Loss(process)
        incoming = StdoutReader(
            config,
            process.stdout,
            lose=loss.declare,
            max_line_bytes=max_line_bytes,
            exchanges=exchanges,
        )
        outgoing = StdinWriter(
            process.stdin, incoming=incoming, gone=process.exited, lose=loss.declare
        )
        if exchanges is not None:
            exchanges.open(outgoing.write)

        async def tell_when_lost() -> None:
            reason = await loss.reason(incoming)
            told.set()
            try:
                on_lost(reason)
            except Exception:
                name = config.name
                logger.exception("on_lost_failed: server %r", name, extra={"server": name})
            incoming.end()
            outgoing.end()

        told = anyio.Event()
        tasks.start_soon(tell_when_lost)
        try:
            yield incoming, outgoing
        finally:
            if loss.is_declared:
                # A session that failed at the first write still needs the reason.
                with anyio.move_on_after(2 * _LAST_MOMENT, shield=True):
                    await told.wait()
            # First, so that our own shutdown is not taken for a loss.
            tasks.cancel_scope.cancel()
            incoming.end()
            outgoing.end()


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

    async def reason(self, incoming: StdoutReader) -> str:
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
        incoming.read_what_is_left()
        words = self._process.describe_exit()
        return words if self._process.exited.is_set() else f"closed its pipes, but {words}"

    async def _watch_exit(self) -> None:
        await self._process.exited.wait()
        self.declare(None)
