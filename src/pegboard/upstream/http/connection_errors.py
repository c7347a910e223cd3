"""Errors of the HTTP library: what they mean, and which come before the request is sent."""

import aiohttp

from pegboard.upstream.http.tls import explain_tls_error

__all__ = ["BEFORE_SENDING", "explain_connection_error"]

BEFORE_SENDING = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
)
"""Errors after which the request itself was certainly not sent."""


def explain_connection_error(error: Exception, host: str) -> str:
    """Return why a host cannot be reached, without the inner names of the HTTP library.

    The reason begins with a small letter and has no full stop, so that it can follow a colon.
    """
    return explain_tls_error(error, host) or _reason_of(error)


def _reason_of(error: Exception) -> str:  # noqa: PLR0911 - one for each kind
    """Return what an error of the HTTP library means, in words for its user."""
    match error:
        case aiohttp.ClientHttpProxyError():
            return f"its proxy refused the connection (HTTP {error.status} {error.message})"
        case aiohttp.ConnectionTimeoutError():
            return "it could not be connected in time"
        case aiohttp.ClientConnectorDNSError():
            return f"the host {error.host!r} cannot be resolved"
        case aiohttp.ClientConnectorError():
            cause = error.os_error.strerror or str(error.os_error)
            place = f"{error.host}:{error.port}"
            if isinstance(error, aiohttp.ClientProxyConnectionError):
                return f"its proxy {place} cannot be reached ({cause})"
            if isinstance(error.os_error, ConnectionRefusedError):
                return f"nothing listens at {place} (Connection refused)"
            return f"{place} cannot be reached ({cause})"
        case _:
            return " ".join(str(error).split()).rstrip(".") or type(error).__name__
