"""Keeps the secrets of servers out of what the libraries below us log."""

import logging

import anyio

from pegboard.config import ServerConfig

__all__ = ["hide_secrets_of"]

# A filter works only on the logger it is added to, so each that shows addresses is named.
_TALKATIVE = (
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
        self.known: dict[str, ServerConfig] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], _CLOSING):
            # The SDK reports with a traceback that we closed a session while an answer came in.
            return False
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
        shown = text
        for config in list(self.known.values()):
            shown = config.redact(shown)
        if shown != text:
            record.msg, record.args, record.exc_info = shown, (), None
        return True


_redaction = _Redaction()


def hide_secrets_of(config: ServerConfig) -> None:
    """Hide the secrets of a server from now on in the records of libraries that show addresses."""
    _redaction.known[config.name] = config
    for name in _TALKATIVE:
        # Adding it again changes nothing.
        logging.getLogger(name).addFilter(_redaction)
