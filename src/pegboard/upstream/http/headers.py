"""The headers that a server is sent besides those of the protocol."""

import logging
import re
from collections.abc import Mapping

from pegboard.config.servers import ServerConfig
from pegboard.errors import ConfigError

__all__ = ["checked_headers", "configured_headers"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_RESERVED = frozenset({"accept", "content-length", "content-type", "host", "last-event-id"})


def configured_headers(config: ServerConfig) -> dict[str, str]:
    """Return the headers and the bearer token of a server, with names in lower case.

    Headers of the protocol are left out with a warning: people copy them from examples.

    Raises:
        ConfigError: when one of them cannot be sent.
    """
    headers: dict[str, str] = {}
    for name, value in config.headers.items():
        _check(name, value)
        if _is_reserved(name):
            logger.warning("header_ignored", extra={"server": config.name, "header": name})
        else:
            headers[name.lower()] = value
    if config.bearer_token:
        headers["authorization"] = f"Bearer {config.bearer_token}"
        _check("Authorization", headers["authorization"])
    return headers


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers, with names in lower case.

    Raises:
        ConfigError: when one of them is no legal header, or belongs to the protocol.
    """
    for name, value in headers.items():
        _check(name, value)
        if _is_reserved(name):
            raise ConfigError(
                f"Header {name!r} belongs to the protocol; leave it out of your own headers."
            )
    return {name.lower(): value for name, value in headers.items()}


def _is_reserved(name: str) -> bool:
    return name.lower() in _RESERVED or name.lower().startswith("mcp-")


def _check(name: object, value: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no legal name of a header.")
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise ConfigError(
            f"The value of header {name!r} must be text in printable ASCII, on one line."
        )
