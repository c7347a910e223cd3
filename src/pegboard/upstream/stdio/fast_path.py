"""StdioFastPath: send requests to a process without the SDK's streams and models."""

import asyncio  # noqa: TID251 - a future is woken from the middle of reading, which no event can be
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import msgspec
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, ErrorData, JSONRPCError, JSONRPCResponse

from pegboard.upstream.messages.jsonrpc import (
    NotDirectError,
    OnMessage,
    RpcResponse,
    quick_answer,
    result_of_answer,
)

__all__ = ["StdioFastPath"]

_requests = msgspec.json.Encoder()


class StdioFastPath:
    """Sends requests of one session; the reader of the pipe hands over their responses."""

    hears: bool = False
    is_ended_by_closing: bool = False
    why_lost: str = ""

    def __init__(self) -> None:
        self._write: Callable[[bytes], Awaitable[ErrorData | None]] | None = None
        self._waiting: dict[int | str, asyncio.Future[tuple[RpcResponse, bytes]]] = {}
        self._is_over = False

    def open(self, write: Callable[[bytes], Awaitable[ErrorData | None]]) -> None:
        """Take the function that writes a line to the process, and returns why it could not."""
        self._write = write

    async def request(
        self, message: Mapping[str, Any], headers: Mapping[str, str], on_message: OnMessage
    ) -> dict[str, Any]:
        """Send a request and return its result.

        Raises:
            MCPError: when the server responds with an error, or not at all.
            NotDirectError: when only the SDK can send it.
        """
        if self._write is None:
            raise NotDirectError
        try:
            line = _requests.encode(message) + b"\n"
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise NotDirectError from error
        if self._is_over:
            raise _closed()
        number = message["id"]
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            failure = await self._write(line)
            if failure is not None:
                raise MCPError(failure.code, failure.message, failure.data)
            return await result_of_answer(*await answer)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise _closed() from None
        finally:
            self._waiting.pop(number, None)
            if not answer.cancel() and not answer.cancelled():
                # Retrieved, so that asyncio does not log an error that came too late for us.
                answer.exception()

    async def resume(
        self, last_event: str, headers: Mapping[str, str], on_message: OnMessage
    ) -> dict[str, Any]:
        """Refuse: a pipe cannot resume a stream."""
        raise NotDirectError

    def take(self, line: bytes) -> bool:
        """Take a line that is the response to one of our requests; return whether it was."""
        if not self._waiting:
            return False
        said = quick_answer(line)
        waiting = None if said is None else self._waiting.get(_number(said.id))
        if said is None or waiting is None:
            return False
        if not waiting.done():
            waiting.set_result((said, line))
        return True

    def take_message(self, message: object) -> bool:
        """Take a response that had to be repaired; return whether it was one of ours."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return False
        waiting = self._waiting.get(_number(message.id))
        if waiting is None:
            return False
        if not waiting.done():
            if isinstance(message, JSONRPCResponse):
                waiting.set_result((RpcResponse(result=message.result), b""))
            else:
                error = message.error
                waiting.set_exception(MCPError(error.code, error.message, error.data))
        return True

    def close(self) -> None:
        """End all running requests."""
        self._is_over = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_closed())


def _closed() -> MCPError:
    return MCPError(CONNECTION_CLOSED, "Connection closed")


def _number(number: int | str | None) -> int | str:
    # Some servers return the id as a string.
    if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 16:
        return int(number)
    return "" if number is None else number
