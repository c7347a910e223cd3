"""JSON-RPC messages as bytes: parsed within limits of size and nesting, and encoded."""

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST

from pegboard.gateway.request import RpcError
from pegboard.server.message_limits import RequestId, UnreadableError, is_request_id

__all__ = [
    "PING",
    "as_event",
    "check_client_info",
    "check_message",
    "encode",
    "error_message",
    "internal_error",
    "is_request",
    "not_a_request",
    "notification_message",
    "request_message",
    "result_message",
]


PING = b": ping\r\n\r\n"
"""A comment that keeps an event stream open."""

LONGEST_CLIENT_INFO = 16_384
"""The most bytes of JSON that the capabilities and the description of a client may have."""

_encode = msgspec.json.Encoder().encode


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


def check_message(value: Any) -> dict[str, Any]:
    """Return a JSON value if it is a request, a notification or a response.

    Raises:
        RpcError: when it is none of them.
    """
    if is_request(value) or _is_response(value):
        return value
    words = "This is not a single JSON-RPC request, notification or response object"
    raise RpcError(INVALID_REQUEST, words)


def _is_response(message: Any) -> TypeGuard[dict[str, Any]]:
    match message:
        case {"method": _}:
            return False
        case {"jsonrpc": "2.0", "id": request_id, "result": {}}:
            return is_request_id(request_id)
        case {"jsonrpc": "2.0", "id": request_id, "error": {"code": int(), "message": str()}}:
            return request_id is None or is_request_id(request_id)
        case _:
            return False


def check_client_info(capabilities: Mapping[str, Any], info: Mapping[str, Any]) -> None:
    """Refuse a client description that is too long to be kept.

    Raises:
        RpcError: when it is too long.
    """
    if len(encode(capabilities)) + len(encode(info)) > LONGEST_CLIENT_INFO:
        words = f"Capabilities and clientInfo have more than {LONGEST_CLIENT_INFO} bytes."
        raise RpcError(INVALID_PARAMS, words)


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


def request_message(request_id: RequestId, method: str, params: Mapping[str, Any]) -> bytes:
    """Return a request to a client."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return encode({**message, "params": params} if params else message)


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
