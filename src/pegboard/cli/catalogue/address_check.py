"""Ask the address that a client is to use once, to warn of what the client would meet there."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from pegboard.cli.terminal.output import warn

__all__ = ["warn_of_address"]

_PATIENCE = 2.0
"""Seconds: a gateway refuses or answers a ping at once."""
_PING = b'{"jsonrpc": "2.0", "id": 0, "method": "ping"}'
_UNAUTHORIZED = 401


def warn_of_address(url: str, headers: Mapping[str, str]) -> None:
    """Warn if nothing answers at an address, or if it wants other credentials."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        # Clients differ in what they make of a name and a password in an address.
        return
    # A query may have a key in it.
    place = parts._replace(query="", fragment="").geturl()
    try:
        status = _status(url, headers)
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        reason = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        warn(f"Nothing answers at {place} now ({reason}); the client needs it when it starts.")
        return
    if status != _UNAUTHORIZED:
        return
    if any(name.lower() == "authorization" for name in headers):
        warn(f"{place} does not accept this `Authorization` header.")
    else:
        warn(f"{place} requires a key: add `--header 'Authorization=Bearer pb_…'`.")


def _status(url: str, headers: Mapping[str, str]) -> int | None:
    """Return the status of the answer; ``None`` if it is not HTTP, or the request cannot be sent.

    Raises:
        OSError: when nothing answers.
    """
    # Only here: they take a while to import.
    from http.client import HTTPException  # noqa: PLC0415
    from urllib.request import (  # noqa: PLC0415
        HTTPHandler,
        HTTPSHandler,
        OpenerDirector,
        ProxyHandler,
        Request,
    )

    # Nothing follows a redirect: the headers may hold a key, which is only for this address.
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        request = Request(url, _PING, {**accept, **headers}, method="POST")  # noqa: S310 - checked
        with opener.open(request, timeout=_PATIENCE) as response:
            return response.status
    except (HTTPException, ValueError):
        return None
