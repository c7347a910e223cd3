"""Redaction: keep the secrets of servers out of the logs of the MCP SDK and HTTP libraries."""

import logging
from weakref import WeakValueDictionary

import anyio

from pegboard.config import ServerConfig

__all__ = ["hide_secrets_of"]

# A filter works only on the logger it is added to, so each that logs URLs is named.
_LOGGERS = (
    "client",
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
