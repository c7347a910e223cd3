"""Which texts can be handed to a process or to an HTTP server."""

import re

from pegboard.config.servers import ServerConfig
from pegboard.errors import ConfigError

__all__ = ["check_texts"]

_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NOT_IN_HEADERS = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
# The surrogates left out stand for bytes that are no text, as in the environment of this process.
_NOT_IN_PROCESSES = re.compile("[\x00\ud800-\udc7f\udd00-\udfff]")


def check_texts(config: ServerConfig) -> None:
    """Refuse what no process and no HTTP request can carry.

    Raises:
        ConfigError: naming the variable or header, never its value.
    """
    texts = (config.command or "", config.cwd or "", *config.args, *config.env.values())
    if any(_NOT_IN_PROCESSES.search(text) for text in texts):
        raise ConfigError(
            f"The command, arguments and environment of server {config.name!r} must be texts "
            "without null characters."
        )
    for name in config.env:
        if not name or "=" in name or _NOT_IN_PROCESSES.search(name):
            raise ConfigError(f"Server {config.name!r} cannot have a variable named {name!r}.")
    for name, value in config.headers.items():
        if not _HEADER_NAME.fullmatch(name) or _NOT_IN_HEADERS.search(value):
            raise ConfigError(
                f"The header {name!r} of server {config.name!r} has a character that HTTP does "
                "not allow, such as a line break."
            )
