"""Shared HTTP connections of a hub, directly or through a proxy, with TLS and keep-alive."""

import ipaddress
import socket
import ssl
from urllib.request import getproxies

import anyio
import anyio.to_thread
import httpx2

__all__ = [
    "KEPT_IDLE",
    "MOST_IDLE",
    "SharedConnections",
    "is_loopback",
    "keep_alive_options",
    "proxy_for",
]

MOST_IDLE = 200
# Shorter than the five seconds after which common servers close an idle connection: a request
# written while the server hangs up could not be repeated safely.
KEPT_IDLE = 4.0
_LIMITS = httpx2.Limits(
    max_connections=None, max_keepalive_connections=MOST_IDLE, keepalive_expiry=KEPT_IDLE
)

_Route = tuple[bool, str | None]


class SharedConnections(httpx2.AsyncBaseTransport):
    """An HTTP transport for many clients: closing one client keeps the connections open."""

    def __init__(self) -> None:
        self._proxies = getproxies()
        self._transports: dict[_Route, httpx2.AsyncHTTPTransport] = {}
        self._opening = anyio.Lock()
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request, directly or through its proxy."""
        route = (request.url.scheme == "https", proxy_for(request.url, self._proxies))
        transport = self._transports.get(route) or await self._open(route)
        return await transport.handle_async_request(request)

    async def close(self) -> None:
        """Close all connections; unlike ``aclose``, which each client calls for itself."""
        self._closed = True
        transports = list(self._transports.values())
        self._transports.clear()
        for transport in transports:
            await transport.aclose()

    async def _open(self, route: _Route) -> httpx2.AsyncHTTPTransport:
        async with self._opening:
            if self._closed:
                raise httpx2.ConnectError("The pool of connections is closed.")
            if route not in self._transports:
                # In a thread: it reads certificates, and imports half of the HTTP library.
                make = anyio.to_thread.run_sync
                self._transports[route] = await make(self._make_transport, *route)
            return self._transports[route]

    def _make_transport(self, secure: bool, proxy: str | None) -> httpx2.AsyncHTTPTransport:  # noqa: FBT001 - the fields of a route
        # A plain-http server must not wait for certificates it has no use for.
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if secure or (proxy or "").startswith("https:"):
            self._tls = verify = self._tls or httpx2.create_ssl_context()
        through = None
        if proxy is not None:
            tls = verify if proxy.startswith("https:") else None
            through = httpx2.Proxy(proxy, ssl_context=tls)
        return httpx2.AsyncHTTPTransport(
            verify=verify, limits=_LIMITS, proxy=through, socket_options=keep_alive_options()
        )


def proxy_for(url: httpx2.URL, proxies: dict[str, str]) -> str | None:
    """Return the proxy the environment wants for this address; never one for loopback."""
    host = url.host.lower()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or is_loopback(host):
        return None
    for entry in proxies.get("no", "").split(","):
        if _exempts(entry.strip().lower(), host, port=url.port):
            return None
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


def keep_alive_options() -> list[tuple[int, int, int]]:
    """Return the socket options that detect a vanished peer."""
    # A stream may be silent for hours: only the kernel can tell that its peer has vanished.
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options
