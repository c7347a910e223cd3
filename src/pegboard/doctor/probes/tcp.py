"""Explain network failures: unknown host, refused or unreachable port, TLS certificate."""

import socket
import ssl
from importlib.util import find_spec
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio.to_thread
import msgspec

from pegboard.config import ServerConfig
from pegboard.doctor.probes.http import (
    TryOut,
    speaks_https,
    why_busy,
    why_unauthorized,
    why_wrong_place,
    with_scheme,
)
from pegboard.doctor.probes.probe import Probe
from pegboard.doctor.report import Finding, found, shown
from pegboard.errors.extras import install_extra
from pegboard.upstream.errors.failures import failure_behind

__all__ = ["TcpProbe", "probe_tcp", "why_address_failed"]

_PATIENCE = 3.0
_HANDSHAKE = 1.0
_PORTS = {"https": 443, "wss": 443}


class TcpProbe(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a TCP connection; without a code, the connection shows no problem."""

    code: str = ""
    reason: str = ""
    host: str = ""
    port: int = 0


def probe_tcp(config: ServerConfig) -> TcpProbe:
    """Open a connection to the address of a server, and close it. Blocks for a few seconds."""
    parts = urlsplit(config.url or "")
    host, scheme = parts.hostname or "", parts.scheme
    port = parts.port or _PORTS.get(scheme, 80)
    if _goes_by_proxy(scheme, host):
        return TcpProbe(host=host, port=port)
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        with socket.create_connection((host, port), timeout=_PATIENCE) as connection:
            is_plain = scheme not in _PORTS
            found = TcpProbe(code="tls_expected" if is_plain and _speaks_tls(connection) else "")
    except (socket.gaierror, UnicodeError):
        found = TcpProbe(code="host_unknown")
    except ConnectionRefusedError:
        found = TcpProbe(code="connection_refused")
    except OSError as error:
        found = TcpProbe(code="unreachable", reason=error.strerror or str(error))
    return msgspec.structs.replace(found, host=host, port=port)


def _speaks_tls(connection: socket.socket) -> bool:
    # Only the handshake is tried; nothing is sent over it.
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


_IN_CLEAR = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST]", "RECORD_LAYER_FAILURE")
_TLS = {
    "tls_expired": (
        "has a certificate that has expired",
        "Ask the operator of the server to renew it, and check the clock of this machine.",
    ),
    "tls_wrong_name": (
        "has a certificate that was issued for another name",
        "Use the name in the certificate in the `url`.",
    ),
    "tls_untrusted": (
        "has a certificate that no trusted authority signed",
        "Save the certificate of the authority that signed it to a file, and set the environment "
        "variable SSL_CERT_FILE to the path of that file.",
    ),
}


async def why_address_failed(probe: Probe, try_out: TryOut) -> Finding | None:
    """Return why the address of a server failed; ``None`` when the address is not the cause."""
    if probe.error is None or probe.phase != "starting":
        return None
    if probe.config.transport == "websocket":
        missing = await anyio.to_thread.run_sync(_missing_extra, probe.config)
        if missing is not None:
            return missing
    failure = failure_behind(probe.error)
    if failure is not None and failure.kind == "unauthorized":
        return why_unauthorized(probe.config, failure)
    if failure is not None and failure.kind == "busy":
        return why_busy(probe.config, failure)
    # A server that sent something other than events was reached.
    if isinstance(probe.error, ConnectionError) and "sent no events" not in str(probe.error):
        nearer = _encryption(probe.config, str(probe.error))
        if nearer is None:
            seen = await anyio.to_thread.run_sync(probe_tcp, probe.config, abandon_on_cancel=True)
            nearer = _unreached(probe.config, seen)
        if nearer is not None:
            return nearer
    return await why_wrong_place(probe, failure, try_out)


def _missing_extra(config: ServerConfig) -> Finding | None:
    if find_spec("websockets") is not None:
        return None
    name, url = config.name, config.target
    return found(
        "missing_extra",
        f"Server {name!r} ({url}) needs the extra `pegboard[websocket]`, which is not installed.",
        f"Run `{install_extra('websocket')}`.",
        server=name,
    )


def _encryption(config: ServerConfig, message: str) -> Finding | None:
    name, url = config.name, config.target
    if any(it in message for it in _IN_CLEAR):
        return found(
            "tls_not_spoken",
            f"Server {name!r} ({url}) speaks plain HTTP, but its `url` says `https`.",
            f'Write `"url": "{with_scheme(url, "http")}"`.',
            server=name,
        )
    _, is_certificate, reason = message.partition("certificate verify failed: ")
    if not is_certificate:
        return None
    code = "tls_untrusted"
    if "expired" in reason or "not yet valid" in reason:
        code = "tls_expired"
    elif "mismatch" in reason or "not valid for" in reason:
        code = "tls_wrong_name"
    what, remedy = _TLS[code]
    words = f"Server {name!r} ({url}) {what}: {shown(reason.partition(' (_ssl')[0])}."
    return found(code, words, remedy, server=name)


def _unreached(config: ServerConfig, seen: TcpProbe) -> Finding | None:
    name, url = config.name, config.target
    match seen.code:
        case "host_unknown":
            what = f"Server {name!r}: the host {seen.host!r} of its `url` cannot be resolved."
            remedy = "Check the spelling, and whether this machine is online (or in the VPN)."
        case "connection_refused":
            what = f"Nothing listens at the address of server {name!r}: {url}."
            remedy = f"Start the server, or correct the port {seen.port} in its `url`."
        case "unreachable":
            what = f"Server {name!r} cannot be reached at {url} ({shown(seen.reason)})."
            remedy = "Check its `url`, and whether a firewall, a VPN or a proxy is in the way."
        case "tls_expected":
            return speaks_https(config)
        case _:
            return None
    return found(seen.code, what, remedy, server=name)
