"""Translate errors of the SDK, the network and processes into Pegboard's errors."""

from collections.abc import Iterator
from typing import cast

import anyio
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR
from pydantic import ValidationError

from pegboard.config import ServerConfig
from pegboard.errors import (
    ConnectionLostError,
    PegboardError,
    ProtocolError,
    ServerAuthenticationError,
    ServerUnavailableError,
    UpstreamError,
)
from pegboard.upstream.connection import ServerBusyError, SessionLostError
from pegboard.upstream.errors.failures import UNREADABLE, Failure, failure_of

__all__ = ["error_of"]

_SAID_BY_THE_SDK = ("Unexpected content type: ", "Redirect to ")
_MAY_HAVE_RUN = "The call may have run all the same: look before you repeat it."


def error_of(
    error: BaseException, config: ServerConfig, *, tool: str = "", why_lost: str = ""
) -> UpstreamError:
    """Return one of Pegboard's errors for what the SDK, the network or a process raised.

    ``why_lost`` explains the loss of a connection of which the SDK knows only the end.
    """
    for cause in _leaves(error):
        if isinstance(cause, UpstreamError):
            cause.tool = cause.tool or tool
            return cause
        if isinstance(cause, MCPError):
            return _from_rpc(cause, config, tool, why_lost)
        if isinstance(cause, ValidationError):
            return ProtocolError(
                f"Server {config.name!r} answered with something the protocol does not have: "
                f"{config.redact(_first_line(cause))}.",
                server=config.name,
                tool=tool,
            )
        if isinstance(cause, anyio.ClosedResourceError | anyio.BrokenResourceError):
            return _lost(config, tool, why_lost)
        if isinstance(cause, OSError):
            return ServerUnavailableError(
                f"Server {config.name!r} cannot be reached: {_words(cause, config)}.",
                server=config.name,
                tool=tool,
            )
    return ProtocolError(
        f"Server {config.name!r} failed: {_words(error, config)}.", server=config.name, tool=tool
    )


def _from_rpc(error: MCPError, config: ServerConfig, tool: str, why_lost: str) -> UpstreamError:
    name = config.name
    words = config.redact(error.message)
    failure = failure_of(error.error)
    if failure is None and _says_unreadable(error):
        failure, words = UNREADABLE, UNREADABLE.message
    if failure is None:
        if _says_closed(error):
            return _lost(config, tool, why_lost or words)
        if config.url is not None and words.startswith(_SAID_BY_THE_SDK):
            return ProtocolError(
                f"Server {name!r} ({config.target}) does not speak MCP: {words.rstrip('.')}. Check "
                "its `url` and `type`.",
                server=name,
                tool=tool,
            )
        answered = ProtocolError(
            f"Server {name!r} answered with error {error.code}: {words}{_hint_of(words)}",
            server=name,
            tool=tool,
            rpc_code=error.code,
            data=cast("object", error.data),
        )
        answered.rpc_message = words
        return answered
    if failure.kind == "lost":
        return _lost(config, tool, words)
    make = _UNREACHED.get(failure.kind, ProtocolError)
    return make(_sentence(words, failure, config), server=name, tool=tool)


_UNREACHED: dict[str, type[ServerUnavailableError]] = {
    "not_sent": ServerUnavailableError,
    "busy": ServerBusyError,
    "session_lost": SessionLostError,
    "unauthorized": ServerAuthenticationError,
}
"""The errors of requests that certainly did nothing, by the kind of failure."""


def _sentence(words: str, failure: Failure, config: ServerConfig) -> str:
    """Return a sentence that names the server, its address, the failure, and what to check."""
    subject = f"Server {config.name!r} ({config.target})"
    match failure.kind, failure.status or 0:
        case "unauthorized", 0:
            # The message of a failed login says what to do.
            return words
        case "unauthorized", _:
            hint = " Check its `headers`, `bearer_token` or `oauth`."
        case "not_sent", _:
            # For a process, its exit says more.
            hint = "" if config.url is None else " Check its `url`."
            subject += "" if words.startswith("The server ") else " was not reached"
        case "http_error", status if 300 <= status < 500:
            hint = " Check its `url` and `type`."
        case _:
            hint = ""
    did = words.removeprefix("The server ")
    return f"{subject}{': ' if did == words else ' '}{did}{hint}"


def _hint_of(words: str) -> str:
    # The message of the SDK's `ctx.elicit` and similar to a client of the modern era.
    if "no back-channel" not in words:
        return ""
    return (
        ' It asks in a way that only the older protocol has: set `"protocol": "legacy"` in its '
        "entry."
    )


def _says_closed(error: MCPError) -> bool:
    # Servers use this code for errors of their own; only the SDK has these messages.
    words = ("Connection closed", "SSE stream ")
    return error.code == CONNECTION_CLOSED and error.message.startswith(words)


def _says_unreadable(error: MCPError) -> bool:
    # The SDK's message for what it could not parse, followed by a page of useless details.
    words = ("Failed to parse JSON response: ", "Failed to parse SSE message: ")
    return error.code == PARSE_ERROR and error.message.startswith(words)


def _lost(config: ServerConfig, tool: str, words: str = "") -> ConnectionLostError:
    detail = f" ({words.rstrip('.')})" if words and words != "Connection closed" else ""
    return ConnectionLostError(
        f"The connection to server {config.name!r} was lost{detail}. {_MAY_HAVE_RUN}",
        server=config.name,
        tool=tool,
    )


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside nested groups: the first that says something is the reason."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _words(error: BaseException, config: ServerConfig) -> str:
    leaf = next(_leaves(error))
    if isinstance(leaf, PegboardError):
        return str(leaf).rstrip(".")
    text = config.redact(_first_line(leaf)).rstrip(".")
    return f"{type(leaf).__name__}: {text}" if text else type(leaf).__name__


def _first_line(error: BaseException, limit: int = 300) -> str:
    lines = str(error).splitlines()
    return lines[0][:limit] if lines else ""
