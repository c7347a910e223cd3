"""Network exposure: serving other machines without credentials is refused."""

import ipaddress
from typing import Protocol
from urllib.parse import urlsplit

from pegboard.errors import ConfigError

__all__ = ["AccessSettings", "check_binding", "is_loopback", "is_safe_address", "is_web_address"]


class AccessSettings(Protocol):
    """The part of `AuthSettings` that decides whether anonymous clients may connect."""

    @property
    def required(self) -> bool:
        """Whether every client has to authenticate."""
        ...

    @property
    def allow_open(self) -> bool:
        """Whether the operator allows anonymous clients from other machines."""
        ...


def check_binding(settings: AccessSettings, host: str) -> None:
    """Refuse to serve other machines without authentication.

    Raises:
        ConfigError: with a message that names the remedies.
    """
    if settings.required or settings.allow_open or is_loopback(host):
        return
    raise ConfigError(
        f"Every client that reaches {host!r} could call every tool. Switch on API keys "
        "(`PEGBOARD_AUTH=keys`, then `pegboard keys create`) or serve 127.0.0.1 only. If something "
        "else keeps other clients out, pass `--allow-anonymous` (or set `PEGBOARD_AUTH=open`)."
    )


def is_loopback(host: str) -> bool:
    """Tell whether a host is a loopback address, which only this machine reaches."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_safe_address(address: str) -> bool:
    """Tell whether signing keys may be fetched from an address: by TLS, or on this machine."""
    if not is_web_address(address):
        return False
    parts = urlsplit(address)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def is_web_address(address: str) -> bool:
    """Tell whether an address is an HTTP or HTTPS URL without a fragment."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.fragment
