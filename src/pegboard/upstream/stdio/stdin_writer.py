"""StdinWriter: write messages to the standard input of a server process."""

from collections.abc import Callable
from io import FileIO

import anyio
from anyio.abc import ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest

from pegboard.upstream.errors.failures import Failure
from pegboard.upstream.stdio.stdout_reader import StdoutReader

__all__ = ["NOT_SENT", "StdinWriter"]

NOT_SENT: ErrorData = Failure(kind="not_sent", message="Its process is gone.").error
"""The error of a request that certainly never reached the server."""


class StdinWriter(ObjectSendStream[SessionMessage]):
    """The stream that a session writes to. A message is on the pipe when `send` returns."""

    def __init__(
        self,
        pipe: FileIO,
        *,
        incoming: StdoutReader,
        gone: anyio.Event,
        lose: Callable[[None], None],
    ) -> None:
        self._pipe = pipe
        self._incoming = incoming
        self._gone = gone
        self._lose = lose
        self._turn = anyio.Lock(fast_acquire=True)
        self._rest = memoryview(b"")
        self._closed = False

    async def send(self, item: SessionMessage) -> None:
        """Write one message. A request that cannot be written gets an error response.

        Raises:
            anyio.ClosedResourceError: when this stream was closed.
            anyio.BrokenResourceError: when the server is gone.
        """
        if self._closed:
            raise anyio.ClosedResourceError
        message = item.message
        if _is_courtesy(message) and (self._rest or self._turn.locked()):
            # A server that does not read will not read this either, so the caller need not wait.
            return
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if await self._sent(data):
            return
        request = message if isinstance(message, JSONRPCRequest) else None
        if request is None or not self._incoming.answer(_not_sent(request)):
            raise anyio.BrokenResourceError

    async def write(self, line: bytes) -> ErrorData | None:
        """Write a request that is already encoded; return the error if it was not sent.

        Raises:
            anyio.ClosedResourceError: when this stream was closed.
        """
        if self._closed:
            raise anyio.ClosedResourceError
        return None if await self._sent(line) else NOT_SENT

    def end(self) -> None:
        """Wake the tasks that wait for the server to read."""
        if not self._pipe.closed:
            anyio.notify_closing(self._pipe)

    async def aclose(self) -> None:
        """Send no more messages."""
        self._closed = True

    async def _sent(self, data: bytes) -> bool:
        """Write all of it; ``False`` when the server certainly did not get it."""
        async with self._turn:
            unwritten = len(data)
            try:
                # The rest of a message whose sender was cancelled must come first.
                await self._flush()
                self._rest = memoryview(data)
                await self._flush()
            except (OSError, ValueError, anyio.ClosedResourceError):
                if self._rest.obj is data:
                    unwritten = len(self._rest)
                self._rest = memoryview(b"")
                self._lose(None)
                # Without its line end it may have been read all the same.
                return unwritten <= 1
            except BaseException:
                if len(self._rest) == len(data) and self._rest.obj is data:
                    self._rest = memoryview(b"")
                raise
        return True

    async def _flush(self) -> None:
        while self._rest:
            if self._gone.is_set():
                raise BrokenPipeError
            written = self._pipe.write(self._rest)
            if written is None:
                await anyio.wait_writable(self._pipe)
            else:
                self._rest = self._rest[written:]


def _not_sent(request: JSONRPCRequest) -> SessionMessage:
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request.id, error=NOT_SENT))


def _is_courtesy(message: object) -> bool:
    return isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled"
