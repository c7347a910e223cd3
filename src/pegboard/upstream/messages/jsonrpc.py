"""JSON-RPC messages of servers: decode them within limits, repair them, and encode ours."""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from anyio.to_thread import run_sync

from pegboard.errors import UpstreamError
from pegboard.upstream.messages.failures import UNREADABLE, FailedError
from pegboard.upstream.messages.nesting_limit import MOST_LEVELS, without_depths

__all__ = [
    "ErrorObject",
    "Message",
    "ServerRpcError",
    "encode",
    "number_of",
    "plain_json",
    "read_message",
    "result_in",
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


class ErrorObject(msgspec.Struct):
    """The error in a response."""

    code: int
    message: str
    data: Any = None


class Message(msgspec.Struct):
    """A message of a server: a response, a request, or a notification."""

    id: int | str | None = None
    method: str | None = None
    params: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: ErrorObject | None = None

    @property
    def number(self) -> int | str | None:
        """The id of a response, see `number_of`."""
        return number_of(self.id)


class ServerRpcError(Exception):
    """A server responded with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def number_of(given: object) -> int | str | None:
    """Return an id or a token that we made; some servers return a number as a string."""
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 16:
        return int(given)
    return given if isinstance(given, int | str) else None


def read_message(data: bytes) -> Message | None:
    """Return the message in some bytes; ``None`` if they are not a message.

    A response without a result has an empty one. A response that cannot be read is a `Message`
    without result and error, so that its caller fails at once.
    """
    return _decoded(data) or _repaired(data)


async def result_in(message: Message, data: bytes) -> dict[str, Any]:
    """Return the result of a response; ``data`` is what it was read from.

    Raises:
        ServerRpcError: when the response is an error.
        FailedError: when it cannot be read, or is nested too deeply.
    """
    if message.error is not None:
        raise ServerRpcError(message.error.code, message.error.message, message.error.data)
    result = message.result
    if result is None:
        raise FailedError(UNREADABLE)
    if data.count(b"{") + data.count(b"[") <= MOST_LEVELS:
        return result
    if len(data) <= LARGE:
        whole = _within_depth(result, data)
    else:
        whole = await run_sync(_within_depth, result, data, abandon_on_cancel=True)
    if whole is None:
        raise FailedError(UNREADABLE)
    return whole


def plain_json(value: object) -> Any:
    """Return a value as plain JSON; a number that JSON does not have becomes null.

    Raises:
        ValueError: when it cannot be written as JSON.
    """
    try:
        return msgspec.json.decode(_plain.encode(value))
    except (TypeError, OverflowError, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error


def encode(message: Mapping[str, Any], *, server: str) -> bytes:
    """Return a message as JSON, to be sent to a server.

    Raises:
        UpstreamError: when it cannot be written as JSON.
    """
    try:
        return _plain.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
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


def _as_plain(value: object) -> object:
    """Return a value that the encoder does not know in a form that it does."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        # pydantic's models, which applications of the SDK use.
        return dump(by_alias=True, mode="json")
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_messages = msgspec.json.Decoder(Message)
_envelopes = msgspec.json.Decoder(_Envelope)
_plain = msgspec.json.Encoder(enc_hook=_as_plain)


def _decoded(data: bytes) -> Message | None:
    try:
        message = _messages.decode(data)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    if message.method is None and message.result is None and message.error is None:
        return None
    return message


def _repaired(data: bytes) -> Message | None:
    text = _HALF_PAIR.sub(rb"\1\\ufffd", data.removeprefix(_BYTE_ORDER_MARK))
    shallow = without_depths(text)
    if shallow != data and (message := _decoded(shallow)) is not None:
        return message
    try:
        said = _envelopes.decode(text)
    except RecursionError:
        # No parser can read it; the id of the request is near one of the ends.
        number = _NUMBER.search(text[:_END]) or _NUMBER.search(text[-_END:])
        return None if number is None else Message(id=int(number[1]))
    except (ValueError, msgspec.MsgspecError):
        return None
    if said.id is None or said.method is not None:
        return None
    if bytes(said.result) == b"null" and bytes(said.error) == b"null":
        return Message(id=said.id, result={})
    return Message(id=said.id)


def _within_depth(result: dict[str, Any], data: bytes) -> dict[str, Any] | None:
    """Return a result that is not too deep; a list of tools may lose its deepest parts."""
    if not _is_too_deep(result):
        return result
    shallow = _decoded(without_depths(data))
    if shallow is None or shallow.result is None or _is_too_deep(shallow.result):
        return None
    return shallow.result


def _is_too_deep(value: object) -> bool:
    level = [value]
    # The message around it is one level more.
    for _ in range(MOST_LEVELS - 1):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _reason(error: Exception) -> str:
    # Without the value itself, which may be secret, and cannot be shown either.
    cut_in_half = "surrogates not allowed" in str(error)
    return "a text has half of a character" if cut_in_half else "too deep, or not a JSON value"
