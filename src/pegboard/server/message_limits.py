"""Limits on JSON-RPC messages of clients: bytes, number of values, and nesting."""

import json
from typing import Any, TypeGuard

import msgspec
from mcp_types.jsonrpc import (
    PARSE_ERROR,
)

from pegboard.gateway.request import RpcError
from pegboard.model.json_limits import (
    MOST_DIGITS,
    MOST_EXPONENTS,
    MOST_LEVELS,
    MOST_VALUES,
    NEVER_SLOW,
    has_more_values,
    has_slow_numbers,
    is_shallow,
)

__all__ = [
    "MOST_LEVELS",
    "MOST_VALUES",
    "BodyTooLargeError",
    "RequestId",
    "UnreadableError",
    "is_request_id",
    "read_json",
    "request_id_in",
]

RequestId = str | int

LONGEST_ID = 1000
"""The most characters of a request's id, which is repeated in the response."""
_LARGEST_GUESSED = 100_000
"""Bytes of a message that is not JSON, up to which its id is looked for."""

_decode = msgspec.json.Decoder().decode


class BodyTooLargeError(Exception):
    """A message is larger than the limit."""

    def __init__(self, words: str, *, request_id: RequestId | None = None) -> None:
        super().__init__(words)
        self.request_id = request_id
        """The id of the request, if it could be read."""


class UnreadableError(RpcError):
    """A message cannot be parsed; its id perhaps can."""

    def __init__(self, words: str, *, request_id: RequestId | None) -> None:
        super().__init__(PARSE_ERROR, words)
        self.request_id = request_id


class _Head(msgspec.Struct):
    """The fields that tell whether a message wants a response; the rest is skipped."""

    id: msgspec.Raw
    method: msgspec.Raw


_decode_head = msgspec.json.Decoder(_Head).decode


def read_json(body: bytes) -> Any:
    """Return the JSON value of a body.

    Raises:
        BodyTooLargeError: when it has too many values, or numbers that are too long.
        UnreadableError: when it is not JSON, or nested too deeply.
    """
    # A body with fewer bytes than that has fewer values.
    if len(body) > MOST_VALUES and has_more_values(body, MOST_VALUES):
        words = f"Request body has more than {MOST_VALUES} values"
        raise BodyTooLargeError(words, request_id=_id_in(body))
    if len(body) > NEVER_SLOW and has_slow_numbers(body):
        words = f"Request body has a number of more than {MOST_DIGITS} digits, or more than "
        words += f"{MOST_EXPONENTS} numbers with exponents of three digits"
        raise BodyTooLargeError(words, request_id=_id_in(body))
    try:
        value = _decode(body)
    except (ValueError, RecursionError):  # msgspec's errors, and broken UTF-8, are ValueErrors
        raise UnreadableError("Parse error", request_id=_id_in(body)) from None
    # With fewer brackets it cannot be too deep, and they are counted fast.
    if body.count(b"{") + body.count(b"[") > MOST_LEVELS and not is_shallow(value):
        words = f"Parse error: nested deeper than {MOST_LEVELS} levels"
        raise UnreadableError(words, request_id=request_id_in(value))
    return value


def is_request_id(value: object) -> TypeGuard[RequestId]:
    """Tell whether this can be the id of a request."""
    if isinstance(value, str):
        return len(value) <= LONGEST_ID
    return isinstance(value, int) and not isinstance(value, bool)


def request_id_in(message: Any) -> RequestId | None:
    """Return the id of a request, even if the rest of it is invalid."""
    match message:
        # The id of a response is one of ours, and may equal that of a request.
        case {"method": _, "id": request_id} if is_request_id(request_id):
            return request_id
        case _:
            return None


def _id_in(body: bytes) -> RequestId | None:
    """Return the id in a body that cannot be parsed as a whole."""
    try:
        head = _decode_head(body)
        # The longest string has six bytes for each character, and two quotes.
        written = bytes(head.id) if len(bytes(head.id)) <= 6 * LONGEST_ID + 2 else b"null"
        return request_id_in({"method": head.method, "id": _decode(written)})
    except (ValueError, RecursionError):
        pass
    # NaN and lone surrogates are not JSON, but some clients write them.
    if len(body) > _LARGEST_GUESSED or has_slow_numbers(body):
        return None
    try:
        return request_id_in(json.loads(body))
    except (ValueError, RecursionError):
        return None
