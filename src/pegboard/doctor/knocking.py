"""Knocking at an address: whether its name is known, and anything listens there."""

import socket
import ssl
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from pegboard.config import ServerConfig

__all__ = ["Knock", "knock"]

_PATIENCE = 3.0
_HANDSHAKE = 1.0
_PORTS = {"https": 443, "wss": 443}


class Knock(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it; without a code nothing is wrong, or nobody can tell."""

    code: str = ""
    reason: str = ""
    host: str = ""
    port: int = 0


def knock(config: ServerConfig) -> Knock:
    """Open a connection to the address of a server, and close it. Blocking, but not for long."""
    parts = urlsplit(config.url or "")
    host, scheme = parts.hostname or "", parts.scheme
    port = parts.port or _PORTS.get(scheme, 80)
    if _goes_by_proxy(scheme, host):
        return Knock(host=host, port=port)
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        with socket.create_connection((host, port), timeout=_PATIENCE) as connection:
            is_plain = scheme not in _PORTS
            found = Knock(code="tls_expected" if is_plain and _speaks_tls(connection) else "")
    except (socket.gaierror, UnicodeError):
        found = Knock(code="host_unknown")
    except ConnectionRefusedError:
        found = Knock(code="connection_refused")
    except OSError as error:
        found = Knock(code="unreachable", reason=error.strerror or str(error))
    return msgspec.structs.replace(found, host=host, port=port)


def _speaks_tls(connection: socket.socket) -> bool:
    # Only to learn whether it would: nothing is sent over it.
    connection.settimeout(_HANDSHAKE)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with context.wrap_socket(connection):
            return True
    except OSError:
        return False


def _goes_by_proxy(scheme: str, host: str) -> bool:
    proxies = getproxies()
    web = {"wss": "https", "ws": "http"}.get(scheme, scheme)
    is_local = host in ("localhost", "127.0.0.1", "::1")
    return bool(proxies.get(web) or proxies.get("all")) and not is_local and not proxy_bypass(host)
