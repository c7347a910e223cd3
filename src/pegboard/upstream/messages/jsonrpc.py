"""JSON-RPC messages of servers: parse them, repair malformed ones, and encode requests."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias, cast

import msgspec
from anyio.to_thread import run_sync
from mcp import MCPError
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter
from pydantic_core import from_json, to_json

from pegboard.errors import UpstreamError
from pegboard.upstream.errors.failures import UNREADABLE
from pegboard.upstream.messages.nesting_limit import MOST_LEVELS, without_depths

__all__ = [
    "ForeignResponseError",
    "NotDirectError",
    "OnMessage",
    "ResumableError",
    "RpcResponse",
    "ServerRpcError",
    "SingleExchanges",
    "mended",
    "message_in",
    "plain_json",
    "quick_answer",
    "read_message",
    "result_in",
    "result_of_answer",
    "sendable",
]


LARGE = 256 * 1024
"""Larger responses are checked in a thread, since they may have millions of values."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# A lone surrogate, which some servers write when they cut a text within a character.
_HALF_PAIR = re.compile(
    rb"(?<!\\)((?:\\\\)*)"
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_END = 200
_NUMBER = re.compile(rb'"id"\s*:\s*([0-9]{1,15})')


OnMessage: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
"""Receives the notifications and requests of a server before its response."""


class ServerRpcError(msgspec.Struct):
    """The error in a response."""

    code: int
    message: str
    data: Any = None


class RpcResponse(msgspec.Struct):
    """The fields of a message that belong to a response."""

    id: int | str | None = None
    method: str | None = None
    result: dict[str, Any] | None = None
    error: ServerRpcError | None = None


class NotDirectError(Exception):
    """The fast path cannot send this request; nothing was sent yet."""


class ResumableError(Exception):
    """The stream of the response ended too soon, and the server can resume it."""

    def __init__(self, last_event: str, retry: int | None) -> None:
        super().__init__(last_event)
        self.last_event = last_event
        self.retry = retry


class SingleExchanges(Protocol):
    """Sends requests without the SDK, each of which gets one response."""

    @property
    def hears(self) -> bool:
        """True when it receives notifications of a request before the response."""
        ...

    @property
    def is_ended_by_closing(self) -> bool:
        """True when closing the connection tells the server that the call is cancelled."""
        ...

    @property
    def why_lost(self) -> str:
        """Why the connection was lost, for the errors of its calls; mostly empty."""
        ...

    def close(self) -> None:
        """End all running exchanges."""
        ...

    async def request(
        self, message: Mapping[str, Any], headers: Mapping[str, str], on_message: OnMessage
    ) -> dict[str, Any]:
        """Send a request and return its result."""
        ...

    async def resume(
        self, last_event: str, headers: Mapping[str, str], on_message: OnMessage
    ) -> dict[str, Any]:
        """Resume a response that ended too soon, and return its result."""
        ...


class ForeignResponseError(Exception):
    """Raised for a response to another request than the one that was sent."""


def read_message(line: bytes) -> JSONRPCMessage | None:
    """Return the message of a line; ``None`` if it is not a message.

    A response without a result has an empty one. A response that cannot be read becomes an error,
    so that its caller fails at once.
    """
    return _parsed(line) or _repaired(line)


def mended(data: bytes) -> bytes:
    """Return a message so that the SDK can read it too; other data stays as it is."""
    if _parsed(data) is not None:
        return data
    message = _repaired(data)
    if message is None:
        return data
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


def quick_answer(body: bytes) -> RpcResponse | None:
    """Return a well-formed response; ``None`` for all else."""
    try:
        said = _answers.decode(body)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    is_answer = said.method is None and (said.result is not None or said.error is not None)
    return said if is_answer else None


async def result_of_answer(said: RpcResponse, body: bytes) -> dict[str, Any]:
    """Return the result of a response.

    Raises:
        MCPError: when the response is an error, or nested too deeply.
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


async def result_in(body: bytes, number: int | None = None) -> dict[str, Any] | None:
    """Return the result in a response; ``None`` if the body is not a response.

    Args:
        body: what the server sent.
        number: the id of the request, if it is known.

    Raises:
        MCPError: when the response is an error, or nested too deeply.
        ForeignResponseError: when it belongs to another request.
    """
    said = quick_answer(body)
    if said is not None:
        # An error may come without an id, if the server could not read the id.
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
    """Return a request or notification of the server; ``None`` if the data is no message."""
    message = read_message(data)
    if message is None:
        return None
    return message.model_dump(by_alias=True, mode="json", exclude_unset=True)


def plain_json(value: object) -> Any:
    """Return a value as plain JSON; a number that JSON does not have becomes null.

    Raises:
        ValueError: when it cannot be written as JSON.
    """
    return from_json(to_json(value, inf_nan_mode="null", fallback=_as_dict))


def sendable(value: object, *, server: str) -> Any:
    """Return a value as plain JSON, to be sent to a server.

    Raises:
        UpstreamError: when it cannot be written as JSON.
    """
    try:
        return plain_json(value)
    except (ValueError, RecursionError) as error:
        raise UpstreamError(
            f"The request was not sent to server {server!r}: it cannot be written as JSON "
            f"({_reason(error)}).",
            server=server,
        ) from error


class _Envelope(msgspec.Struct):
    id: int | str | None = None
    method: object = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")


_envelope = msgspec.json.Decoder(_Envelope)
_answers = msgspec.json.Decoder(RpcResponse)


def _parsed(line: bytes) -> JSONRPCMessage | None:
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValueError, RecursionError):
        return None


def _repaired(line: bytes) -> JSONRPCMessage | None:
    text = _HALF_PAIR.sub(rb"\1\\ufffd", line.removeprefix(_BYTE_ORDER_MARK))
    shallow = without_depths(text)
    if shallow != line and (message := _parsed(shallow)) is not None:
        return message
    return _answer_in(text)


def _answer_in(line: bytes) -> JSONRPCMessage | None:
    try:
        said = _envelope.decode(line)
    except RecursionError:
        # No parser can read it; the id of the request is near one of the ends.
        number = _NUMBER.search(line[:_END]) or _NUMBER.search(line[-_END:])
        return None if number is None else _unreadable(int(number[1]))
    except (ValueError, msgspec.MsgspecError):
        return None
    if said.id is None or said.method is not None:
        return None
    if bytes(said.result) == b"null" and bytes(said.error) == b"null":
        return JSONRPCResponse(jsonrpc="2.0", id=said.id, result=cast("dict[str, Any]", {}))
    return _unreadable(said.id)


def _unreadable(number: int | str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=number, error=UNREADABLE.error)


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


def _as_dict(value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    return dict(cast("Mapping[Any, Any]", value))


def _reason(error: Exception) -> str:
    # Without the value itself, which may be secret, and cannot be shown either.
    cut_in_half = "surrogates not allowed" in str(error)
    return "a text has half of a character" if cut_in_half else "too deep, or not a JSON value"
