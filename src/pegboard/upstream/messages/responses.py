"""Answers of servers, read from bytes without the SDK's models where that is possible."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias, cast

import msgspec
from anyio.to_thread import run_sync
from mcp import MCPError
from mcp_types import JSONRPCError, JSONRPCResponse

from pegboard.model import Content, Other, ToolResult
from pegboard.upstream.errors.failures import UNREADABLE
from pegboard.upstream.messages.messages import read_message
from pegboard.upstream.messages.nesting_limit import MOST_LEVELS

__all__ = [
    "ForeignResponseError",
    "NotDirectError",
    "OnMessage",
    "ResumableError",
    "RpcResponse",
    "SingleExchanges",
    "message_in",
    "quick_answer",
    "result_in",
    "result_of",
    "result_of_answer",
]

LARGE = 256 * 1024
"""Answers of more bytes are looked through in a thread, since they may have millions of parts."""


class ServerRpcError(msgspec.Struct):
    """What an answer says that went wrong."""

    code: int
    message: str
    data: Any = None


class RpcResponse(msgspec.Struct):
    """A message of a server, as far as it is an answer."""

    id: int | str | None = None
    method: str | None = None
    result: dict[str, Any] | None = None
    error: ServerRpcError | None = None


_answers = msgspec.json.Decoder(RpcResponse)


def quick_answer(body: bytes) -> RpcResponse | None:
    """Return an answer that is written as it should be; ``None`` for all else."""
    try:
        said = _answers.decode(body)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    is_answer = said.method is None and (said.result is not None or said.error is not None)
    return said if is_answer else None


async def result_of_answer(said: RpcResponse, body: bytes) -> dict[str, Any]:
    """Return the result that an answer brings.

    Raises:
        MCPError: when the answer is an error, or nested too deeply.
    """
    if said.error is not None:
        raise MCPError(said.error.code, said.error.message, said.error.data)
    result = said.result
    assert result is not None
    if body.count(b"{") + body.count(b"[") <= MOST_LEVELS:
        return result
    if len(body) <= LARGE:
        is_too_deep = _is_too_deep(result)
    else:
        is_too_deep = await run_sync(_is_too_deep, result, abandon_on_cancel=True)
    if is_too_deep:
        raise MCPError(UNREADABLE.error.code, UNREADABLE.message, UNREADABLE.error.data)
    return result


class ForeignResponseError(Exception):
    """Raised for an answer to another request than the one that was sent."""


async def result_in(body: bytes, number: int | None = None) -> dict[str, Any] | None:
    """Return the result in an answer; ``None`` if it is no answer.

    Args:
        body: what the server sent.
        number: the id of the request, if it is known.

    Raises:
        MCPError: when the answer is an error, or nested too deeply.
        ForeignResponseError: when it answers another request.
    """
    said = quick_answer(body)
    if said is not None:
        # An error may come without an id: then the server could not read it.
        if number is not None and said.id not in (number, str(number), None):
            raise ForeignResponseError
        return await result_of_answer(said, body)
    match read_message(body):
        case JSONRPCResponse(result=result):
            return result
        case JSONRPCError(error=error):
            raise MCPError(error.code, error.message, error.data)
        case _:
            return None


def message_in(data: bytes) -> dict[str, Any] | None:
    """Return a message that is no answer, as the protocol has it; ``None`` if it is none."""
    message = read_message(data)
    if message is None:
        return None
    return message.model_dump(by_alias=True, mode="json", exclude_unset=True)


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


MOST_BLOCKS = 10_000
"""So many parts of content one result may have: each is looked at, and everybody else waits."""


def result_of(raw: Mapping[str, Any]) -> ToolResult:
    """Return the answer to `tools/call` as a ToolResult that keeps everything.

    Raises:
        TypeError, ValueError: when it is no such answer.
    """
    structured = raw.get("structuredContent")
    blocks = raw.get("content") or ()
    if len(blocks) > MOST_BLOCKS:
        raise ValueError(f"It has {len(blocks)} content blocks, and {MOST_BLOCKS} are the most.")
    return ToolResult(
        content=tuple(_block(block) for block in blocks),
        structured_content=structured,
        is_error=bool(raw.get("isError")),
        meta=raw.get("_meta") or {},
        wire=raw,
    )


def _block(block: object) -> Content:
    try:
        return msgspec.convert(block, Content)
    except msgspec.ValidationError:
        if isinstance(block, dict):
            return Other(block=cast("dict[str, Any]", block))
        raise ValueError(f"A content block is an object, not {type(block).__name__!r}.") from None


OnMessage: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
"""Receives what a server says, or asks, before it answers."""


class NotDirectError(Exception):
    """This request has to go the long way; nothing was done for it yet."""


class ResumableError(Exception):
    """The stream with the answer ended too soon, and the server lets one ask for the rest."""

    def __init__(self, last_event: str, retry: int | None) -> None:
        super().__init__(last_event)
        self.last_event = last_event
        self.retry = retry


class SingleExchanges(Protocol):
    """Sends requests past the SDK, each of which gets one answer."""

    @property
    def hears(self) -> bool:
        """True when it hears what the server says about a request before it answers."""
        ...

    @property
    def is_ended_by_closing(self) -> bool:
        """True when the server notices by itself that nobody waits for an answer any more."""
        ...

    @property
    def why_lost(self) -> str:
        """What those should know who lose their answer with the connection; mostly nothing."""
        ...

    def close(self) -> None:
        """End what is under way."""
        ...

    async def request(
        self, message: Mapping[str, Any], headers: Mapping[str, str], on_message: OnMessage
    ) -> dict[str, Any]:
        """Send a request and return its result."""
        ...

    async def resume(
        self, last_event: str, headers: Mapping[str, str], on_message: OnMessage
    ) -> dict[str, Any]:
        """Ask for the rest of an answer that ended too soon."""
        ...
