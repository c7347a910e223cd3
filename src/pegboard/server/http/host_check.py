"""HostCheck: which ``Host`` and ``Origin`` headers are allowed, against DNS rebinding.

A page of a foreign site can make a browser send requests to this machine, if the DNS name of the
site is changed to point here. Such a request has the name of that site in ``Host`` and in
``Origin``. An IP address in ``Host`` is safe: no DNS entry can redirect it.
"""

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from mcp_types import INVALID_REQUEST

from pegboard.auth.network_exposure import is_loopback
from pegboard.gateway.request import RpcError
from pegboard.server.http.request import HttpRequest

__all__ = ["HostCheck"]


LONGEST_NAME = 300


class HostCheck:
    """Checks the headers ``Host`` and ``Origin``."""

    def __init__(
        self, *, names: Iterable[str] = (), origins: Iterable[str] = (), any_name: bool = False
    ) -> None:
        self._names = frozenset(name.lower() for name in names)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._any_name = any_name
        self._knows_host = lru_cache(256)(self._look_at_host)

    async def admit(self, request: HttpRequest) -> bool:
        """Check the ``Host`` of a request; if it is not ours, refuse it and return false."""
        if await request.refuse_repeated("Host"):
            return False
        if self.permits_host(request.headers.get("host", "")):
            return True
        words = "Invalid Host header: this name is not known here; see `--allow-host`."
        await request.refuse(421, RpcError(INVALID_REQUEST, words))
        return False

    def permits_host(self, host: str) -> bool:
        """Tell whether a request with this ``Host`` is meant for this server."""
        return self._any_name or (len(host) <= LONGEST_NAME and self._knows_host(host))

    def _look_at_host(self, host: str) -> bool:
        name = _name_in(host)
        return name is not None and (_is_address(name) or name in self._names or is_loopback(name))

    def permits_origin(self, origin: str) -> bool:
        """Tell whether a page of this ``Origin`` may call this server."""
        if origin.lower() in self._origins or "*" in self._origins:
            return True
        try:
            name = urlsplit(origin).hostname
        except ValueError:
            return False
        return name is not None and is_loopback(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name_in(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
