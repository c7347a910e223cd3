"""Errors as MCP has them: a result that says what went wrong, or a JSON-RPC error."""

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
    StorageError,
    ToolNotFoundError,
)
from pegboard.errors.root import shorten
from pegboard.gateway.request import RpcError, object_in
from pegboard.gateway.tool_lines import signature
from pegboard.model import Principal, Tool
from pegboard.policies import may_operate

__all__ = ["CutOffError", "error_result", "failure_of", "rpc_error_of"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

_FOR_THE_CLIENT = frozenset({MISSING_REQUIRED_CLIENT_CAPABILITY, URL_ELICITATION_REQUIRED})
"""A missing capability, a page to be visited: not the model but the client can do something."""
_SPEAK_OF_OTHERS = frozenset(
    {
        *("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames"),
        *("allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if", "dependentSchemas"),
    }
)
"""Keywords of a schema by which it may know more arguments than those it lists."""
_LISTED, _SHOWN = 5, 64
_IN_GENERAL: tuple[tuple[type[PegboardError], str], ...] = (
    (ServerAuthenticationError, "Server {server} does not accept the credentials of the gateway"),
    (CircuitOpenError, "Server {server} failed too often and is left alone for a while"),
    (ServerTimeoutError, "Server {server} did not answer in time"),
    (ServerUnavailableError, "Server {server} could not be started or reached"),
    (NotConnectedError, "Server {server} is not connected"),
    (
        ConnectionLostError,
        "The connection to server {server} was lost. The call may have run all the same: look "
        "before you repeat it",
    ),
    (ProtocolError, "Server {server} gave an answer that cannot be used"),
    (StorageError, "The gateway could not read or keep it"),
    (SearchDataError, "The gateway cannot search in this way"),
    (ConfigError, "The configuration of the gateway cannot be used"),
)
"""What is said of errors whose own words tell how the gateway and its servers are run."""


class CutOffError(RpcError):
    """The gateway ends before a request under way is answered; nobody knows what it did."""

    def __init__(self) -> None:
        words = "it may have run all the same: look before you repeat it."
        super().__init__(INTERNAL_ERROR, f"The gateway is shutting down. This was cut off; {words}")


def error_result(words: str) -> dict[str, Any]:
    """Return the result of a call that failed, in words for a model."""
    return {"content": [{"type": "text", "text": words}], "isError": True}


def failure_of(
    error: Exception, principal: Principal, *, tool: Tool | None = None, arguments: object = None
) -> dict[str, Any]:
    """Return the result of a call that raised, in words that a model can act on.

    Raises:
        RpcError: when not the model but the client has to do something about it.
    """
    if isinstance(error, RpcError):
        raise error
    if isinstance(error, ProtocolError) and error.rpc_code in _FOR_THE_CLIENT:
        raise rpc_error_of(error, principal)
    if isinstance(error, InvalidArgumentsError) and tool is not None:
        words = f"{error}\nIt is called like this: {signature(tool)}"
        return error_result(words + _unknown_arguments(tool, arguments))
    if isinstance(error, NotImplementedToolError):
        return error_result(
            f"Tool {error.tool!r} is registered as a definition only: it can be described, but "
            "there is nothing here that could run it."
        )
    if isinstance(error, PegboardError):
        return error_result(_words(error, principal))
    return error_result(f"The tool failed: {type(error).__name__}: {error}")


def rpc_error_of(error: PegboardError, principal: Principal) -> RpcError:
    """Return the JSON-RPC error that stands for one of ours."""
    words = _words(error, principal)
    if isinstance(error, ProtocolError) and error.rpc_code is not None:
        return RpcError(error.rpc_code, error.rpc_message or words, error.data)
    data: dict[str, Any] = {"code": error.code}
    if isinstance(error, ToolNotFoundError):
        return RpcError(INVALID_PARAMS, words, {**data, "nearest": list(error.nearest)})
    if isinstance(error, RateLimitedError):
        return RpcError(INVALID_REQUEST, words, {**data, "retryAfter": error.retry_after})
    if isinstance(error, AccessDeniedError):
        return RpcError(INVALID_REQUEST, words, data)
    if isinstance(error, KeyError | ValueError):
        return RpcError(INVALID_PARAMS, words, data)
    return RpcError(INTERNAL_ERROR, words, data)


def _unknown_arguments(tool: Tool, arguments: object) -> str:
    """Name the arguments that a tool does not know, where its schema does not speak of others.

    Nothing refuses them; but whoever wrote one meant another that is missing.
    """
    schema = tool.input_schema
    known = object_in(schema.get("properties"))
    if not known or not _SPEAK_OF_OTHERS.isdisjoint(schema):
        return ""
    names = [f"`{name[:_SHOWN]}`" for name in object_in(arguments) if name not in known]
    return f"\nIt does not know {', '.join(names[:_LISTED])}." if names else ""


def _words(error: PegboardError, principal: Principal) -> str:
    """Return what somebody is told of an error: all of it, if they may operate the gateway.

    The words of some name commands, paths, addresses, and what a process said before it died.
    """
    said_by_server = isinstance(error, ProtocolError) and error.rpc_code is not None
    if said_by_server or may_operate(principal):
        return str(error)
    if isinstance(error, ServerNotFoundError):
        return f"No server is named {shorten(error.name)}."
    for kind, words in _IN_GENERAL:
        if isinstance(error, kind):
            server = repr(getattr(error, "server", ""))
            # That one is left alone was said when it failed, and is no news.
            level = logging.DEBUG if kind is CircuitOpenError else logging.WARNING
            logger.log(level, "told_in_general: %s", error, extra={"reason": str(error)})
            return f"{words.format(server=server)}. The log of the gateway says more."
    return str(error)
