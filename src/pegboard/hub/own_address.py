"""Own address: whether a server is the very gateway that would connect to it."""

from urllib.parse import urlsplit

from pegboard.auth.settings import is_loopback
from pegboard.config import ServerConfig

__all__ = ["is_own_address"]

_ANY_HOST = ("0.0.0.0", "::")  # noqa: S104 - to be known, not to be bound


def is_own_address(config: ServerConfig, host: str, port: int) -> bool:
    """Tell whether the address of a server is that of a gateway at this host and port."""
    place = urlsplit(config.url or "")
    name = place.hostname or ""
    is_here = name == host or "localhost" in (name, host) or host in _ANY_HOST
    return place.port == port and is_loopback(name) and is_here
