"""Which texts can be handed to a process or to an HTTP server."""

import re

from pegboard.config.paths import shown_key
from pegboard.config.servers import ServerConfig
from pegboard.errors import ConfigError

__all__ = ["HEADER_NAME", "HEADER_VALUE", "check_texts", "is_reserved_header"]

HEADER_NAME: re.Pattern[str] = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
HEADER_VALUE: re.Pattern[str] = re.compile(r"(?![\t ])[\t\x20-\x7e]*(?<![\t ])")
_RESERVED = frozenset({"accept", "content-length", "content-type", "host", "last-event-id"})
# The surrogates left out stand for bytes that are no text, as in the environment of this process.
_NOT_IN_PROCESSES = re.compile("[\x00\ud800-\udc7f\udd00-\udfff]")


def check_texts(config: ServerConfig) -> None:
    """Refuse what no process and no HTTP request can carry.

    Raises:
        ConfigError: never with a value in it, nor with a name that is none.
    """
    texts = (config.command or "", config.cwd or "", *config.args, *config.env.values())
    if any(_NOT_IN_PROCESSES.search(text) for text in texts):
        raise ConfigError(
            f"The command, arguments and environment of server {config.name!r} must be texts "
            "without null characters."
        )
    for name in config.env:
        if not name or "=" in name or _NOT_IN_PROCESSES.search(name):
            raise ConfigError(
                f"A variable in the `env` of server {config.name!r} has an impossible name: an "
                "empty one, or one with `=` or a null character."
            )
    for name, value in config.headers.items():
        if not HEADER_NAME.fullmatch(name):
            raise ConfigError(
                f"A header of server {config.name!r} has an impossible name: an empty one, or one "
                "with a space, a colon or another character that HTTP does not allow."
            )
        _check_header(f"header {shown_key(name)!r}", value, config.name)
    _check_header("`bearer_token`", config.bearer_token or "", config.name)


def is_reserved_header(name: str) -> bool:
    """Tell whether a header belongs to the protocol, so that nobody else may set it."""
    return name.lower() in _RESERVED or name.lower().startswith("mcp-")


def _check_header(what: str, value: str, server: str) -> None:
    if not HEADER_VALUE.fullmatch(value):
        raise ConfigError(
            f"The {what} of server {server!r} must be printable ASCII on one line, with no "
            "blank around it; look for a line break at its end, or a variable that is empty."
        )
