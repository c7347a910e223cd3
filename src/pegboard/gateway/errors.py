"""Errors as MCP has them: a result with `isError`, or a JSON-RPC error with its code."""

import logging
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
    CircuitOpenError,
    ConfigError,
    ConnectionLostError,
    InvalidArgumentsError,
    LimitReachedError,
    NotConnectedError,
    NotImplementedToolError,
    PegboardError,
    ProtocolError,
    RateLimitedError,
    SearchDataError,
    ServerAuthenticationError,
    ServerNotFoundError,
    ServerTimeoutError,
    ServerUnavailableError,
    SkillIntegrityError,
    StorageError,
    TaskCancelledError,
    TaskLostError,
    TaskTimeoutError,
    ToolNotFoundError,
    UnsupportedResultError,
)
from pegboard.errors.root import shorten
from pegboard.gateway.request import RpcError, object_in
from pegboard.gateway.tool_lines import signature, unknown_arguments
from pegboard.model import Principal, Tool
from pegboard.policies import may_operate

__all__ = ["LIMIT_REACHED", "CutOffError", "error_result", "failure_of", "rpc_error_of"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

LIMIT_REACHED = -32011
"""The JSON-RPC error code of a request beyond a limit of its caller; the HTTP status is 429."""

_FOR_THE_CLIENT = frozenset({MISSING_REQUIRED_CLIENT_CAPABILITY, URL_ELICITATION_REQUIRED})
"""A missing capability, or a page to visit: the client can act on these, the model cannot."""
_CODES = (
    (AccessDeniedError, INVALID_REQUEST),
    (KeyError, INVALID_PARAMS),
    (ValueError, INVALID_PARAMS),
)
_LISTED, _SHOWN = 5, 64
_IN_GENERAL: tuple[tuple[type[PegboardError], str], ...] = (
    (ServerAuthenticationError, "Server {server} does not accept the credentials of the gateway"),
    (
        CircuitOpenError,
        "Server {server} is configured but not running: it failed too often; the gateway waits "
        "before it tries the server again",
    ),
    (ServerTimeoutError, "Server {server} did not answer in time"),
    (
        ServerUnavailableError,
        "Server {server} is configured but not running: it could not be started or reached",
    ),
    (NotConnectedError, "Server {server} is not connected"),
    (
        ConnectionLostError,
        "The connection to server {server} was lost. The call may have run all the same: look "
        "before you repeat it",
    ),
    (
        TaskLostError,
        "Server {server} does not know the task any more that it made of the call. The call may "
        "have run all the same: look before you repeat it",
    ),
    (TaskCancelledError, "Server {server} cancelled the task that it made of the call"),
    (TaskTimeoutError, "The task that server {server} made of the call did not end in time"),
    (ProtocolError, "Server {server} sent a response that the gateway cannot use"),
    (StorageError, "The gateway could not read or write its store"),
    (SearchDataError, "The gateway cannot search with this method"),
    (ConfigError, "The configuration of the gateway is invalid"),
)
"""General messages for errors whose own messages reveal how the operator runs the servers."""


class CutOffError(RpcError):
    """The gateway ended before it could answer a request; what the request did is unknown."""

    def __init__(self) -> None:
        words = "it may have run all the same: look before you repeat it."
        super().__init__(INTERNAL_ERROR, f"The gateway is shutting down. This was cut off; {words}")


def error_result(words: str) -> dict[str, Any]:
    """Return the result of a failed call, with a message for the model."""
    return {"content": [{"type": "text", "text": words}], "isError": True}


def failure_of(
    error: Exception, principal: Principal, *, tool: Tool | None = None, arguments: object = None
) -> dict[str, Any]:
    """Return the result of a call that raised an error, with a message that a model can act on.

    Raises:
        RpcError: when the client, not the model, has to act on the error.
    """
    if isinstance(error, RpcError):
        raise error
    if isinstance(error, ProtocolError) and error.rpc_code in _FOR_THE_CLIENT:
        raise rpc_error_of(error, principal)
    if isinstance(error, LimitReachedError):
        if error.retry_after is not None:
            raise rpc_error_of(error, principal)
        typed = {"code": error.code, "setting": error.setting}
        return {**error_result(str(error)), "structuredContent": typed}
    if isinstance(error, InvalidArgumentsError) and tool is not None:
        words = f"{error}\nIt is called like this: {signature(tool)}"
        return error_result(words + _unknown(tool, arguments))
    if isinstance(error, NotImplementedToolError):
        return error_result(
            f"Tool {error.tool!r} is registered as a definition only: the gateway can describe it, "
            "but cannot run it."
        )
    if isinstance(error, PegboardError):
        return error_result(_words(error, principal))
    return error_result(f"The tool failed: {type(error).__name__}: {error}")


def rpc_error_of(error: PegboardError, principal: Principal) -> RpcError:
    """Return the JSON-RPC error for one of our errors."""
    words = _words(error, principal)
    if isinstance(error, ProtocolError) and error.rpc_code is not None:
        return RpcError(error.rpc_code, error.rpc_message or words, error.data)
    data: dict[str, Any] = {"code": error.code}
    if isinstance(error, SkillIntegrityError):
        data |= {"server": error.server, "skill": error.skill}
    if isinstance(error, ToolNotFoundError):
        data["nearest"] = list(error.nearest)
        if error.unavailable:
            data["unavailable"] = list(error.unavailable)
        return RpcError(INVALID_PARAMS, words, data)
    if isinstance(error, RateLimitedError):
        return RpcError(INVALID_REQUEST, words, {**data, "retryAfter": error.retry_after})
    if isinstance(error, LimitReachedError):
        wait = {} if error.retry_after is None else {"retryAfter": error.retry_after}
        return RpcError(LIMIT_REACHED, words, {**data, "setting": error.setting, **wait})
    for kind, code in _CODES:
        if isinstance(error, kind):
            return RpcError(code, words, data)
    return RpcError(INTERNAL_ERROR, words, data)


def _unknown(tool: Tool, arguments: object) -> str:
    """Name the arguments that a tool does not know: the model probably meant a missing one."""
    names = [f"`{it[:_SHOWN]}`" for it in unknown_arguments(tool, object_in(arguments))]
    return f"\nIt has no argument {', '.join(names[:_LISTED])}." if names else ""


def _words(error: PegboardError, principal: Principal) -> str:
    """Return the message of an error: the full message if the caller may operate the gateway.

    Some full messages name commands, paths, addresses, and the last output of a dead process, so
    other callers get a general message.
    """
    said_by_server = isinstance(error, ProtocolError) and error.rpc_code is not None
    # The caller needs to know what it has started.
    if said_by_server or isinstance(error, UnsupportedResultError) or may_operate(principal):
        return str(error)
    if isinstance(error, ServerNotFoundError):
        return f"No server is named {shorten(error.name)}."
    for kind, words in _IN_GENERAL:
        if isinstance(error, kind):
            server = repr(getattr(error, "server", ""))
            # An open circuit was logged when the server failed; repeating it adds nothing.
            level = logging.DEBUG if kind is CircuitOpenError else logging.WARNING
            logger.log(level, "told_in_general: %s", error, extra={"reason": str(error)})
            return f"{words.format(server=server)}. The log of the gateway says more."
    return str(error)
