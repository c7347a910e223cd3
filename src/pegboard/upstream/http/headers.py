"""HTTP headers of a server: the configured ones, its bearer token, and their checks."""

import logging
from collections.abc import Mapping

from pegboard.config.servers import HEADER_NAME, HEADER_VALUE, ServerConfig, is_reserved_header
from pegboard.errors import ConfigError

__all__ = ["checked_headers", "configured_headers"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")


def configured_headers(config: ServerConfig) -> dict[str, str]:
    """Return the headers and the bearer token of a server, with names in lower case.

    Headers of the protocol are left out with a warning: people copy them from examples.

    Raises:
        ConfigError: when one of them cannot be sent.
    """
    headers: dict[str, str] = {}
    for name, value in config.headers.items():
        _check(name, value)
        if is_reserved_header(name):
            context = {"server": config.name, "header": name}
            logger.warning(
                "header_ignored: %r of server %r belongs to the protocol",
                *(name, config.name),
                extra=context,
            )
        else:
            headers[name.lower()] = value
    if config.bearer_token:
        headers["authorization"] = f"Bearer {config.bearer_token}"
        _check("Authorization", headers["authorization"])
    return headers


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers, with names in lower case.

    Raises:
        ConfigError: when a header is invalid, or belongs to the protocol.
    """
    for name, value in headers.items():
        _check(name, value)
        if is_reserved_header(name):
            raise ConfigError(
                f"Header {name!r} belongs to the protocol; leave it out of your own headers."
            )
    return {name.lower(): value for name, value in headers.items()}


def _check(name: object, value: object) -> None:
    if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a valid header name.")
    if not isinstance(value, str) or not HEADER_VALUE.fullmatch(value):
        raise ConfigError(
            f"The value of header {name!r} must be text in printable ASCII, on one line, "
            "with no blank around it."
        )
