"""Errors as MCP has them: a result that says what went wrong, or a JSON-RPC error."""

from typing import Any

from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    URL_ELICITATION_REQUIRED,
)

from pegboard.errors import (
    AccessDeniedError,
    InvalidArgumentsError,
    NotImplementedToolError,
    PegboardError,
    ProtocolError,
    RateLimitedError,
    ToolNotFoundError,
)
from pegboard.gateway.exchange import RpcError
from pegboard.gateway.signatures import signature
from pegboard.model import Tool

__all__ = ["error_result", "failure_of", "rpc_error_of"]

_FOR_THE_CLIENT = frozenset({MISSING_REQUIRED_CLIENT_CAPABILITY, URL_ELICITATION_REQUIRED})
"""A missing capability, a page to be visited: not the model but the client can do something."""


def error_result(words: str) -> dict[str, Any]:
    """Return the result of a call that failed, in words for a model."""
    return {"content": [{"type": "text", "text": words}], "isError": True}


def failure_of(error: Exception, tool: Tool | None = None) -> dict[str, Any]:
    """Return the result of a call that raised, in words that a model can act on.

    Raises:
        RpcError: when not the model but the client has to do something about it.
    """
    if isinstance(error, RpcError):
        raise error
    if isinstance(error, ProtocolError) and error.rpc_code in _FOR_THE_CLIENT:
        raise rpc_error_of(error)
    if isinstance(error, InvalidArgumentsError) and tool is not None:
        return error_result(f"{error}\nIt is called like this: {signature(tool)}")
    if isinstance(error, NotImplementedToolError):
        return error_result(
            f"Tool {error.tool!r} is registered as a definition only: it can be described, but "
            "there is nothing here that could run it."
        )
    if isinstance(error, PegboardError):
        return error_result(str(error))
    return error_result(f"The tool failed: {type(error).__name__}: {error}")


def rpc_error_of(error: PegboardError) -> RpcError:
    """Return the JSON-RPC error that stands for one of ours."""
    if isinstance(error, ProtocolError) and error.rpc_code is not None:
        return RpcError(error.rpc_code, error.rpc_message or str(error), error.data)
    data: dict[str, Any] = {"code": error.code}
    if isinstance(error, ToolNotFoundError):
        return RpcError(INVALID_PARAMS, str(error), {**data, "nearest": list(error.nearest)})
    if isinstance(error, RateLimitedError):
        return RpcError(INVALID_REQUEST, str(error), {**data, "retryAfter": error.retry_after})
    if isinstance(error, AccessDeniedError):
        return RpcError(INVALID_REQUEST, str(error), data)
    if isinstance(error, KeyError | ValueError):
        return RpcError(INVALID_PARAMS, str(error), data)
    return RpcError(INTERNAL_ERROR, str(error), data)
