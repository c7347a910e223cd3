"""Translation of what the SDK, the network and processes raise into our errors: the one border."""

from collections.abc import Iterator
from typing import cast

import anyio
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from pegboard.config import ServerConfig
from pegboard.errors import (
    AuthenticationError,
    ConnectionLostError,
    PegboardError,
    ProtocolError,
    ServerUnavailableError,
    UpstreamError,
)
from pegboard.upstream.connection import ServerBusyError, SessionLostError
from pegboard.upstream.failures import Failure, failure_of

__all__ = ["error_of"]

_MAY_HAVE_RUN = "The call may have run all the same: look before you repeat it."


def error_of(error: BaseException, config: ServerConfig, *, tool: str = "") -> UpstreamError:
    """Return one of our errors for whatever the SDK, the network or a process raised."""
    for cause in _leaves(error):
        if isinstance(cause, UpstreamError):
            cause.tool = cause.tool or tool
            return cause
        if isinstance(cause, MCPError):
            return _from_rpc(cause, config, tool)
        if isinstance(cause, ValidationError):
            return ProtocolError(
                f"Server {config.name!r} answered with something the protocol does not have: "
                f"{config.redact(_first_line(cause))}.",
                server=config.name,
                tool=tool,
            )
        if isinstance(cause, anyio.ClosedResourceError | anyio.BrokenResourceError):
            return _lost(config, tool)
        if isinstance(cause, OSError):
            return ServerUnavailableError(
                f"Server {config.name!r} cannot be reached: {_words(cause, config)}.",
                server=config.name,
                tool=tool,
            )
    return ProtocolError(
        f"Server {config.name!r} failed: {_words(error, config)}.", server=config.name, tool=tool
    )


def _from_rpc(error: MCPError, config: ServerConfig, tool: str) -> UpstreamError:
    name = config.name
    words = config.redact(error.message)
    failure = failure_of(error.error)
    kind = None if failure is None else failure.kind
    if kind == "lost" or (kind is None and _says_closed(error)):
        return _lost(config, tool, words)
    if kind == "unauthorized":
        return AuthenticationError(_credentials(words, failure, name), server=name, tool=tool)
    if kind in _UNREACHED:
        make, sentence = _UNREACHED[kind]
        message = sentence.format(name=repr(name), target=config.target, words=words)
        return make(message, server=name, tool=tool)
    return ProtocolError(
        f"Server {name!r} answered with error {error.code}: {words}",
        server=name,
        tool=tool,
        rpc_code=error.code,
        data=None if failure else cast("object", error.data),
    )


def _credentials(words: str, failure: Failure | None, name: str) -> str:
    if failure is not None and failure.status is None:
        # A login that failed says itself what to do.
        return words
    return (
        f"Server {name!r} refused the credentials: {words} Check its `headers`, `bearer_token` or "
        "`oauth`."
    )


_UNREACHED: dict[str, tuple[type[ServerUnavailableError], str]] = {
    "not_sent": (ServerUnavailableError, "Server {name} ({target}) was not reached: {words}"),
    "busy": (ServerBusyError, "Server {name} is busy: {words}"),
    "session_lost": (SessionLostError, "Server {name} has forgotten the session."),
}
"""What our transports say of requests that certainly did nothing."""


def _says_closed(error: MCPError) -> bool:
    # Servers use this code for errors of their own; only the SDK says it in these words.
    words = ("Connection closed", "SSE stream ")
    return error.code == CONNECTION_CLOSED and error.message.startswith(words)


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
        return str(leaf)
    text = config.redact(_first_line(leaf)).rstrip(".")
    return f"{type(leaf).__name__}: {text}" if text else type(leaf).__name__


def _first_line(error: BaseException, limit: int = 300) -> str:
    lines = str(error).splitlines()
    return lines[0][:limit] if lines else ""
