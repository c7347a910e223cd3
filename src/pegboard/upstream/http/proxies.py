"""Proxies: which one leads to a server, by its entry or by the environment."""

import ipaddress
from urllib.parse import urlsplit

__all__ = ["is_loopback", "proxy_for"]


def proxy_for(url: str, configured: str | None, proxies: dict[str, str]) -> str | None:
    """Return the proxy for an address; ``None`` if it is reached directly.

    Args:
        url: the address of the server.
        configured: what its entry says; empty for no proxy, ``None`` for that of the environment.
        proxies: the proxies of the environment, which are never used for loopback.
    """
    if configured is not None:
        return _with_scheme(configured) if configured else None
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback(host):
        return None
    for entry in proxies.get("no", "").split(","):
        if _exempts(entry.strip().lower(), host, port=parts.port):
            return None
    return _with_scheme(proxy)


def _with_scheme(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _exempts(entry: str, host: str, *, port: int | None) -> bool:
    if entry in ("", "*"):
        return entry == "*"
    address = _address(host)
    if address is not None:
        try:
            return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
        except ValueError:
            pass
    name, _, wanted_port = entry.partition(":")
    if wanted_port and wanted_port != str(port):
        return False
    return host == name or host.endswith("." + name.lstrip("."))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
