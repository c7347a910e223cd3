"""Transport: choose stdio, HTTP, SSE, WebSocket or memory by the configuration of a server."""

import logging
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from weakref import WeakValueDictionary

import anyio

from pegboard.config import ServerConfig
from pegboard.upstream.events import ServerLogger
from pegboard.upstream.http.pool import HttpPool
from pegboard.upstream.http.sse_transport import sse_channel
from pegboard.upstream.http.streamable_http import streamable_http_channel
from pegboard.upstream.messages.channel import MessageChannel, Receive
from pegboard.upstream.stdio.process import GRACE
from pegboard.upstream.stdio.transport import stdio_channel

__all__ = ["hide_secrets_of", "open_channel"]

# A filter works only on the logger it is added to, so each that logs URLs is named.
_LOGGERS = (
    "aiohttp.client",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "httpx2",
    "mcp.client.auth.oauth2",
    "mcp.client.sse",
    "mcp.client.streamable_http",
    "websockets.client",
)


_CLOSING = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class _Redaction(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        # Two servers may share a name, and each has its own secrets.
        self.known: WeakValueDictionary[int, ServerConfig] = WeakValueDictionary()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], _CLOSING):
            # The SDK logs a traceback when we close a session while a response comes in.
            return False
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
        shown = text
        # Other threads may open servers meanwhile; `valuerefs` copies the list in one step.
        for reference in self.known.valuerefs():
            config = reference()
            if config is not None:
                shown = config.redact(shown)
        if shown != text:
            record.msg, record.args, record.exc_info = shown, (), None
        return True


_redaction = _Redaction()


def hide_secrets_of(config: ServerConfig) -> None:
    """Redact the secrets of a server in the log records of the libraries from now on."""
    _redaction.known[id(config)] = config
    for name in _LOGGERS:
        # Adding it again changes nothing.
        logging.getLogger(name).addFilter(_redaction)


def open_channel(  # noqa: PLR0913 - a transport is told all of it
    config: ServerConfig,
    *,
    pool: HttpPool,
    receive: Receive,
    on_lost: Callable[[str], None],
    is_legacy: bool,
    log: ServerLogger | None = None,
    grace: float = GRACE,
) -> AbstractAsyncContextManager[MessageChannel]:
    """Return the channel to a server; nothing is opened before it is entered.

    Args:
        config: the server.
        pool: the HTTP connections of the hub.
        receive: gets the notifications and requests that certainly belong to no call.
        on_lost: called once with the reason when the server goes away by itself.
        is_legacy: whether the session begins with the handshake.
        log: gets what a process writes to standard error, and when it starts and exits.
        grace: the seconds that a process has to end once its input is closed.
    """
    hide_secrets_of(config)
    match config.transport:
        case "streamable_http":
            return streamable_http_channel(config, pool, receive=receive)
        case "sse":
            return sse_channel(config, pool, receive=receive, on_lost=on_lost)
        case "stdio" if sys.platform != "win32":
            return stdio_channel(config, receive=receive, on_lost=on_lost, log=log, grace=grace)
        case "stdio":
            # The SDK knows job objects; our process groups and guardian are POSIX.
            from pegboard.upstream.memory import windows_channel  # noqa: PLC0415

            return windows_channel(config, receive=receive, on_lost=on_lost)
        case "websocket":
            # Few servers need it, and it needs an extra.
            from pegboard.upstream.websocket import websocket_channel  # noqa: PLC0415

            return websocket_channel(config, receive=receive, on_lost=on_lost)
        case "memory":
            # It imports the SDK, which takes a second, and which no other transport needs.
            from pegboard.upstream.memory import memory_channel  # noqa: PLC0415

            return memory_channel(config, receive=receive, on_lost=on_lost, is_legacy=is_legacy)
