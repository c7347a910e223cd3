"""Translate errors of transports, the network and processes into Pegboard's errors."""

import copy
from collections.abc import Iterator
from typing import TypeVar, cast

import anyio

from pegboard.config import ServerConfig
from pegboard.errors import (
    ConnectionLostError,
    PegboardError,
    ProtocolError,
    ServerAuthenticationError,
    ServerUnavailableError,
    UntrustedAddressError,
    UpstreamError,
)
from pegboard.model.hidden_characters import visible
from pegboard.upstream.connection import (
    HeaderMismatchError,
    ResumableLossError,
    ResumePoint,
    ServerBusyError,
    SessionLostError,
)
from pegboard.upstream.messages.failures import FailedError, Failure, ResumableError
from pegboard.upstream.messages.jsonrpc import ServerRpcError
from pegboard.upstream.messages.protocol import HEADER_MISMATCH

__all__ = ["error_of"]

L = TypeVar("L", bound=ConnectionLostError)

_LONGEST_MESSAGE = 10_000
"""The most characters of a server's error message that are kept."""
_MAY_HAVE_RUN = "The call may have run all the same: look before you repeat it."


def error_of(
    error: BaseException, config: ServerConfig, *, tool: str = "", opening: bool = False
) -> UpstreamError:
    """Return one of Pegboard's errors for what a transport, the network or a process raised.

    While a session is ``opening``, nothing that could run was sent.
    """
    for cause in _leaves(error):
        known = _known(cause, config, tool, opening=opening)
        if known is not None:
            return known
    return ProtocolError(
        f"Server {config.name!r} failed: {_words(error, config)}.", server=config.name, tool=tool
    )


def _known(  # noqa: PLR0911 - one for each kind
    cause: BaseException, config: ServerConfig, tool: str, *, opening: bool
) -> UpstreamError | None:
    match cause:
        case UpstreamError():
            cause.tool = cause.tool or tool
            return cause
        case FailedError():
            return _from_failure(cause, config, tool)
        case ServerRpcError():
            return _from_rpc(cause, config, tool)
        case anyio.ClosedResourceError() | anyio.BrokenResourceError():
            return _lost(config, tool)
        case OSError() if not opening:
            return _lost(config, tool, _words(cause, config))
        case OSError():
            return ServerUnavailableError(
                f"Server {config.name!r} cannot be reached: {_words(cause, config)}.",
                server=config.name,
                tool=tool,
            )
        case _:
            return None


def _from_rpc(error: ServerRpcError, config: ServerConfig, tool: str) -> ProtocolError:
    words = error.message
    if len(words) > _LONGEST_MESSAGE:
        # Cut after secrets were redacted, so that none is cut in two.
        words = f"{config.redact(words[: 2 * _LONGEST_MESSAGE])[:_LONGEST_MESSAGE]}…"
    else:
        words = config.redact(words)
    words = visible(words)
    kind = HeaderMismatchError if error.code == HEADER_MISMATCH else ProtocolError
    answered = kind(
        f"Server {config.name!r} answered with error {error.code}: {words}{_hint_of(words)}",
        server=config.name,
        tool=tool,
        rpc_code=error.code,
        data=error.data,
    )
    answered.rpc_message = words
    return answered


def _from_failure(error: FailedError, config: ServerConfig, tool: str) -> UpstreamError:
    failure = error.failure
    if isinstance(error.__cause__, UntrustedAddressError):
        untrusted = copy.copy(error.__cause__)
        untrusted.tool = tool
        return untrusted
    words = visible(config.redact(failure.message))
    if isinstance(error, ResumableError):
        lost = _lost(config, tool, words, kind=ResumableLossError)
        lost.resume = ResumePoint(error.number, error.last_event, error.pause)
        return lost
    if failure.kind == "lost":
        return _lost(config, tool, words)
    make = _UNREACHED.get(failure.kind, ProtocolError)
    return make(_sentence(words, failure, config), server=config.name, tool=tool)


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
            hint = "" if config.url is None else failure.remedy or " Check its `url`."
            subject += "" if words.startswith("The server ") else " was not reached"
        case "not_mcp", _:
            return f"{subject} does not speak MCP: {words.rstrip('.')}. Check its `url` and `type`."
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


def _lost(
    config: ServerConfig, tool: str, words: str = "", *, kind: type[L] = ConnectionLostError
) -> L:
    detail = f" ({words.rstrip('.')})" if words else ""
    return kind(
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
    text = visible(config.redact(_first_line(leaf))).rstrip(".")
    return f"{type(leaf).__name__}: {text}" if text else type(leaf).__name__


def _first_line(error: BaseException, limit: int = 300) -> str:
    lines = str(error).splitlines()
    return lines[0][:limit] if lines else ""
