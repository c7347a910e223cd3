"""Messages as servers write them, the careless ones included."""

import re
from typing import Any, cast

import msgspec
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

__all__ = ["read_message"]

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
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValueError, RecursionError):
        pass
    try:
        mended = _HALF_PAIR.sub(rb"\1\\ufffd", line)
        if mended != line:
            return jsonrpc_message_adapter.validate_json(mended, by_name=False)
    except (ValueError, RecursionError):
        pass
    return _answer_in(line)


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
    problem = ErrorData(code=PARSE_ERROR, message="Its answer cannot be read.")
    return JSONRPCError(jsonrpc="2.0", id=number, error=problem)
