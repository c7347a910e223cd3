"""Messages as servers write them, the careless ones included."""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter
from pydantic_core import from_json, to_json

from pegboard.errors import UpstreamError
from pegboard.upstream.errors.failures import UNREADABLE
from pegboard.upstream.messages.nesting_limit import without_depths

__all__ = ["mended", "plain_json", "read_message", "sendable"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Half of a pair, as some servers write it when they cut a text in the middle of a character.
_HALF_PAIR = re.compile(
    rb"(?<!\\)((?:\\\\)*)"
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


def read_message(line: bytes) -> JSONRPCMessage | None:
    """Return the message that is written there; ``None`` if it is none.

    An answer without a result is an empty one. An answer that cannot be read is an error, so that
    whoever waits for it is told at once.
    """
    return _as_it_is(line) or _with_care(line)


def mended(data: bytes) -> bytes:
    """Return a message so that the SDK can read it too; what is no message stays as it is."""
    if _as_it_is(data) is not None:
        return data
    message = _with_care(data)
    if message is None:
        return data
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _as_it_is(line: bytes) -> JSONRPCMessage | None:
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValueError, RecursionError):
        return None


def _with_care(line: bytes) -> JSONRPCMessage | None:
    text = _HALF_PAIR.sub(rb"\1\\ufffd", line.removeprefix(_BYTE_ORDER_MARK))
    shallow = without_depths(text)
    if shallow != line and (message := _as_it_is(shallow)) is not None:
        return message
    return _answer_in(text)


class _Envelope(msgspec.Struct):
    id: int | str | None = None
    method: object = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")


_END = 200
_NUMBER = re.compile(rb'"id"\s*:\s*([0-9]{1,15})')
_envelope = msgspec.json.Decoder(_Envelope)


def _answer_in(line: bytes) -> JSONRPCMessage | None:
    try:
        said = _envelope.decode(line)
    except RecursionError:
        # Too deep for anybody to read; the number of the request stands at one of the ends.
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


def plain_json(value: object) -> Any:
    """Return a value as a server will read it; a number that JSON does not have becomes null.

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


def _as_dict(value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} is no value of JSON")
    return dict(cast("Mapping[Any, Any]", value))


def _reason(error: Exception) -> str:
    # Without what is to be written: it may be a secret, and cannot be shown either.
    cut_in_half = "surrogates not allowed" in str(error)
    return "half of a character in a text" if cut_in_half else "too deep, or no value of JSON"
