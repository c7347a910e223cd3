"""Answers of servers, read from bytes without the SDK's models where that is possible."""

from typing import Any

import msgspec
from anyio.to_thread import run_sync
from mcp import MCPError
from mcp_types import JSONRPCError, JSONRPCResponse

from pegboard.upstream.depths import MOST_LEVELS
from pegboard.upstream.failures import UNREADABLE
from pegboard.upstream.messages import read_message

__all__ = [
    "Answer",
    "ForeignAnswerError",
    "message_in",
    "quick_answer",
    "result_in",
    "result_of_answer",
]

LARGE = 256 * 1024
"""Answers of more bytes are looked through in a thread, since they may have millions of parts."""


class RpcError(msgspec.Struct):
    """What an answer says that went wrong."""

    code: int
    message: str
    data: Any = None


class Answer(msgspec.Struct):
    """A message of a server, as far as it is an answer."""

    id: int | str | None = None
    method: str | None = None
    result: dict[str, Any] | None = None
    error: RpcError | None = None


_answers = msgspec.json.Decoder(Answer)


def quick_answer(body: bytes) -> Answer | None:
    """Return an answer that is written as it should be; ``None`` for all else."""
    try:
        said = _answers.decode(body)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    is_answer = said.method is None and (said.result is not None or said.error is not None)
    return said if is_answer else None


async def result_of_answer(said: Answer, body: bytes) -> dict[str, Any]:
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


class ForeignAnswerError(Exception):
    """Raised for an answer to another request than the one that was sent."""


async def result_in(body: bytes, number: int | None = None) -> dict[str, Any] | None:
    """Return the result in an answer; ``None`` if it is no answer.

    Args:
        body: what the server sent.
        number: the id of the request, if it is known.

    Raises:
        MCPError: when the answer is an error, or nested too deeply.
        ForeignAnswerError: when it answers another request.
    """
    said = quick_answer(body)
    if said is not None:
        # An error may come without an id: then the server could not read it.
        if number is not None and said.id not in (number, str(number), None):
            raise ForeignAnswerError
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
