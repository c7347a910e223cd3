"""JSON-RPC messages as bytes: parsed within limits of size and nesting, and encoded."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeGuard

import msgspec
from mcp_types.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCMessage,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from pegboard.gateway.calls.json_path import has_more_values
from pegboard.gateway.request import RpcError

__all__ = [
    "MOST_LEVELS",
    "MOST_VALUES",
    "PING",
    "BodyTooLargeError",
    "RequestId",
    "UnreadableError",
    "as_event",
    "encode",
    "error_message",
    "has_false_id",
    "internal_error",
    "is_request",
    "is_request_id",
    "message_of",
    "not_a_request",
    "notification_message",
    "read_json",
    "request_id_in",
    "result_message",
]

RequestId = str | int

MOST_LEVELS = 200
"""The deepest nesting that a message may have."""

MOST_VALUES = 100_000
"""The most values that a message may have; empty lists and objects count twice.

Each value costs much more memory and time than its bytes.
"""

PING = b": ping\r\n\r\n"
"""A comment that keeps an event stream open."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


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
        BodyTooLargeError: when it has too many values.
        UnreadableError: when it is not JSON, or nested too deeply.
    """
    if has_more_values(body, MOST_VALUES):
        words = f"Request body has more than {MOST_VALUES} values"
        raise BodyTooLargeError(words, request_id=_id_in(body))
    try:
        value = _decode(body)
    except (ValueError, RecursionError):  # msgspec's errors, and broken UTF-8, are ValueErrors
        raise UnreadableError("Parse error", request_id=_id_in(body)) from None
    # With fewer brackets it cannot be too deep, and they are counted fast.
    if body.count(b"{") + body.count(b"[") > MOST_LEVELS and not _is_shallow(value):
        words = f"Parse error: nested deeper than {MOST_LEVELS} levels"
        raise UnreadableError(words, request_id=request_id_in(value))
    return value


def is_request_id(value: object) -> TypeGuard[RequestId]:
    """Tell whether this can be the id of a request."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def is_request(message: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a message has the form of a request, or of a notification if it has no id."""
    if not isinstance(message, dict):
        return False
    it: dict[str, Any] = message  # pyright: ignore[reportUnknownVariableType]
    return (
        it.get("jsonrpc") == "2.0"
        and isinstance(it.get("method"), str)
        and ("id" not in it or is_request_id(it["id"]))
        and isinstance(it.get("params"), dict | None)
    )


def request_id_in(message: Any) -> RequestId | None:
    """Return the id of a request, even if the rest of it is invalid."""
    match message:
        # The id of a response is one of ours, and may equal that of a request.
        case {"method": _, "id": request_id} if is_request_id(request_id):
            return request_id
        case _:
            return None


def has_false_id(message: Any) -> bool:
    """Tell whether a message is a request with an id that the protocol does not allow.

    The SDK takes it for a notification, but its sender waits for a response.
    """
    match message:
        case {"method": _, "id": request_id}:
            return not is_request_id(request_id)
        case _:
            return False


def message_of(value: Any) -> JSONRPCMessage:
    """Return a JSON value as a message of the SDK.

    Raises:
        RpcError: when it is not a message.
    """
    if not has_false_id(value):
        with suppress(ValidationError):
            return jsonrpc_message_adapter.validate_python(value, by_name=False)
    words = "This is not a single JSON-RPC request, notification or response object"
    raise RpcError(INVALID_REQUEST, words)


def not_a_request() -> RpcError:
    """Return the error for JSON that is not a single request or notification."""
    words = "Body must be a single JSON-RPC request or notification object"
    return RpcError(INVALID_REQUEST, words)


def internal_error() -> RpcError:
    """Return the error for a fault of the gateway; the log has the details."""
    return RpcError(INTERNAL_ERROR, "Internal server error")


def result_message(request_id: RequestId | None, result: Mapping[str, Any]) -> bytes:
    """Return the response to a request."""
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def error_message(request_id: RequestId | None, error: RpcError) -> bytes:
    """Return the response to a request that failed; the id is ``None`` if it is unknown."""
    if isinstance(error, UnreadableError):
        request_id = error.request_id
    said: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        said["data"] = error.data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": said})


def notification_message(method: str, params: Mapping[str, Any]) -> bytes:
    """Return a notification."""
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def as_event(message: bytes) -> bytes:
    """Return a message as an event of an event stream."""
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"


def encode(value: object) -> bytes:
    """Return a value as JSON on one line, also with text that is not valid Unicode."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        # A lone surrogate, which JSON has only as an escape.
        return json.dumps(value, separators=(",", ":")).encode()


def _id_in(body: bytes) -> RequestId | None:
    """Return the id in a body that cannot be parsed as a whole."""
    try:
        head = _decode_head(body)
        return request_id_in({"method": head.method, "id": _decode(head.id)})
    except (ValueError, RecursionError):
        pass
    # NaN and lone surrogates are not JSON, but some clients write them.
    if has_more_values(body, MOST_VALUES):
        return None
    try:
        return request_id_in(json.loads(body))
    except (ValueError, RecursionError):
        return None


def _is_shallow(value: object) -> bool:
    level: list[Any] = [value]
    for _ in range(MOST_LEVELS):
        level = [
            child
            for it in level
            if isinstance(it, dict | list)
            for child in (it.values() if isinstance(it, dict) else it)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            if isinstance(child, dict | list)
        ]
        if not level:
            return True
    return False
