"""Explain network failures: unknown host, refused port, proxy, TLS handshake and certificate."""

import socket
import ssl
from base64 import b64encode
from datetime import UTC, datetime
from importlib.util import find_spec
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies

import anyio.to_thread
import msgspec

from pegboard.config import ServerConfig
from pegboard.doctor.probes.http import (
    NO_EVENTS,
    TryOut,
    speaks_https,
    why_busy,
    why_unauthorized,
    why_untrusted,
    why_wrong_place,
    with_scheme,
)
from pegboard.doctor.probes.probe import Probe
from pegboard.doctor.report import Finding, found, shown
from pegboard.errors import ConfigError, UntrustedAddressError
from pegboard.errors.extras import install_extra
from pegboard.upstream.http.proxies import proxy_for
from pegboard.upstream.http.tls import TlsFaultKind, tls_context, tls_fault
from pegboard.upstream.messages.failures import Failure, failure_behind

__all__ = ["TcpProbe", "probe_tcp", "why_address_failed"]

_PATIENCE = 3.0
_HANDSHAKE = 1.0
_PORTS = {"https": 443, "wss": 443}
_LONGEST_ANSWER = 65_536
_UNTIMELY = ("tls_expired", "tls_not_yet_valid")


class TcpProbe(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a TCP connection; without a code, the connection shows no problem."""

    code: str = ""
    reason: str = ""
    host: str = ""
    port: int = 0
    proxy: str = ""
    """The host and port of the proxy on the way, if there is one."""


class _ProbeError(Exception):
    def __init__(self, code: str, reason: str = "") -> None:
        super().__init__(reason)
        self.code = code


def probe_tcp(config: ServerConfig) -> TcpProbe:
    """Open a connection to the address of a server, and close it. Blocks for a few seconds.

    The connection goes through the proxy of the server, and includes the TLS handshake of `https`
    and `wss`. No request is sent over it.
    """
    parts = urlsplit(config.url or "")
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 80)
    proxy = _proxy_of(config, parts.scheme)
    seen = TcpProbe(host=host, port=port)
    if proxy is not None:
        seen = msgspec.structs.replace(seen, proxy=proxy.netloc.rpartition("@")[2])
    try:
        _try_connection(config, (host, port), proxy)
    except _ProbeError as error:
        return msgspec.structs.replace(seen, code=error.code, reason=str(error))
    return seen


def _try_connection(
    config: ServerConfig, address: tuple[str, int], proxy: SplitResult | None
) -> None:
    scheme = urlsplit(config.url or "").scheme
    try:
        is_secure = scheme in _PORTS or (proxy is not None and proxy.scheme == "https")
        context = tls_context(config.tls) if is_secure else None
    except ConfigError as error:
        raise _ProbeError("bad_tls", str(error)) from error
    if proxy is not None:
        _try_proxy(config, address, proxy, context)
        return
    with _connected(address) as connection:
        if context is not None:
            try:
                _shake_hands(context, connection, address[0])
            except _ProbeError as error:
                dates = _validity(address) if error.code in _UNTIMELY else ""
                raise _ProbeError(error.code, f"{error}{dates}") from error
        elif _speaks_tls(connection):
            raise _ProbeError("tls_expected")


def _validity(address: tuple[str, int]) -> str:
    """Return until when or from when the certificate of a server is valid, in brackets."""
    # Only the doctor looks into a certificate.
    from cryptography import x509  # noqa: PLC0415

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        connection = socket.create_connection(address, timeout=_PATIENCE)
        with connection, context.wrap_socket(connection, server_hostname=address[0]) as secure:
            found = x509.load_der_x509_certificate(secure.getpeercert(binary_form=True) or b"")
    except (OSError, ValueError):
        return ""
    start, end, now = found.not_valid_before_utc, found.not_valid_after_utc, datetime.now(UTC)
    if end < now:
        return f" (it was valid until {end:%Y-%m-%d %H:%M} UTC)"
    # Otherwise, it is a certificate of an authority whose time is over.
    return f" (it is valid from {start:%Y-%m-%d %H:%M} UTC)" if start > now else ""


def _connected(address: tuple[str, int]) -> socket.socket:
    try:
        return socket.create_connection(address, timeout=_PATIENCE)
    except (socket.gaierror, UnicodeError) as error:
        raise _ProbeError("host_unknown") from error
    except ConnectionRefusedError as error:
        raise _ProbeError("connection_refused") from error
    except OSError as error:
        raise _ProbeError("unreachable", error.strerror or str(error)) from error


def _try_proxy(
    config: ServerConfig,
    address: tuple[str, int],
    proxy: SplitResult,
    context: ssl.SSLContext | None,
) -> None:
    scheme, is_secure = urlsplit(config.url or "").scheme, proxy.scheme == "https"
    try:
        connection = _connected((proxy.hostname or "", proxy.port or (443 if is_secure else 80)))
    except _ProbeError as error:
        reasons = {"host_unknown": "unknown host", "connection_refused": "nothing listens there"}
        raise _ProbeError("proxy_unreachable", reasons.get(error.code, str(error))) from error
    with connection:
        if is_secure:
            # Only the way to the proxy is tried: a handshake inside of it would need more.
            assert context is not None
            _shake_hands(context, connection, proxy.hostname or "")
        elif scheme != "http":
            _ask_for_tunnel(connection, address, proxy)
            if scheme in _PORTS and context is not None:
                _shake_hands(context, connection, address[0])


def _ask_for_tunnel(
    connection: socket.socket, address: tuple[str, int], proxy: SplitResult
) -> None:
    target = f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username is not None:
        account = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {b64encode(account.encode()).decode()}")
    answer = b""
    try:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        while b"\r\n\r\n" not in answer and len(answer) < _LONGEST_ANSWER:
            received = connection.recv(4096)
            if not received:
                break
            answer += received
    except OSError as error:
        reason = "it does not answer" if isinstance(error, TimeoutError) else str(error)
        raise _ProbeError("proxy_unreachable", reason) from error
    status = answer.partition(b"\r\n")[0].decode("latin-1").partition(" ")[2]
    if not status:
        raise _ProbeError("proxy_unreachable", "it closes the connection without an answer")
    if not status.startswith("2"):
        raise _ProbeError("proxy_refused", status)


def _shake_hands(context: ssl.SSLContext, connection: socket.socket, host: str) -> None:
    try:
        secure = context.wrap_socket(connection, server_hostname=host)
    except TimeoutError as error:
        raise _ProbeError("tls_no_answer", "did not finish the TLS handshake") from error
    except OSError as error:
        raise _tls_error(error) or _ProbeError(
            "tls_closed", "closed the connection during the TLS handshake"
        ) from error
    with secure:
        secure.settimeout(_HANDSHAKE)
        try:
            # A server that wants another client certificate says so only after the handshake.
            secure.recv(1)
        except OSError as error:
            if (trouble := _tls_error(error)) is not None:
                raise trouble from error


def _tls_error(error: OSError) -> _ProbeError | None:
    fault = tls_fault(error)
    return None if fault is None else _ProbeError(_TLS[fault.kind][0], fault.words)


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


def _proxy_of(config: ServerConfig, scheme: str) -> SplitResult | None:
    url = (config.url or "").replace("ws", "http", 1) if scheme in ("ws", "wss") else config.url
    proxy = proxy_for(url or "", config.proxy, getproxies())
    return None if proxy is None else urlsplit(proxy)


_TLS: dict[TlsFaultKind, tuple[str, str]] = {
    "expired": (
        "tls_expired",
        "Ask the operator of the server to renew it, and check the clock of this machine.",
    ),
    "not_yet_valid": (
        "tls_not_yet_valid",
        "Check the clock of this machine, and ask the operator of the server for the certificate "
        "that is valid now.",
    ),
    "wrong_name": ("tls_wrong_name", "Use the name in the certificate in the `url`."),
    "untrusted": (
        "tls_untrusted",
        "Save the certificate of the authority that signed it to a PEM file, and write "
        '`"tls": {"ca": "FILE"}` into its entry. The environment variable SSL_CERT_FILE names '
        "such a file for all servers, instead of the authorities of the system.",
    ),
    "client_certificate": (
        "tls_client_certificate",
        "Ask the operator of the server for a client certificate, and write "
        '`"tls": {"client_cert": "FILE", "client_key": "FILE"}` into its entry.',
    ),
    "version": (
        "tls_version",
        "Ask the operator of the server to switch on TLS 1.2 or TLS 1.3.",
    ),
    "not_spoken": ("tls_not_spoken", "Write `http://` in its `url`, or the port that speaks TLS."),
    "no_answer": (
        "tls_no_answer",
        "Check that the port in its `url` speaks TLS, and whether a firewall, a VPN or a proxy "
        "holds the connection up.",
    ),
    "closed": (
        "tls_closed",
        "Check that the port in its `url` speaks TLS, and whether a firewall, a VPN or a proxy "
        "closes the connection; the log of the server may say more.",
    ),
    "other": ("tls_failed", "Read the log of the server, or ask its operator."),
}
_TLS_REMEDIES = dict(_TLS.values())


async def why_address_failed(probe: Probe, try_out: TryOut) -> Finding | None:
    """Return why the address of a server failed; ``None`` when the address is not the cause."""
    if probe.phase != "starting" or (probe.error is None and probe.limit is None):
        return None
    if probe.config.transport == "websocket":
        missing = await anyio.to_thread.run_sync(_missing_extra, probe.config)
        if missing is not None:
            return missing
    if isinstance(probe.error, UntrustedAddressError):
        return why_untrusted(probe.config, probe.error)
    failure = None if probe.error is None else failure_behind(probe.error)
    refusal = None if failure is None else _refusal(probe.config, failure)
    if refusal is not None:
        return refusal
    if _may_be_unreached(probe):
        seen = await anyio.to_thread.run_sync(probe_tcp, probe.config, abandon_on_cancel=True)
        nearer = _unreached(probe.config, seen)
        if nearer is not None:
            return nearer
    return None if probe.error is None else await why_wrong_place(probe, failure, try_out)


def _refusal(config: ServerConfig, failure: Failure) -> Finding | None:
    if failure.kind == "unauthorized":
        return why_unauthorized(config, failure)
    if failure.kind == "busy":
        return why_busy(config, failure)
    if failure.status == 407:
        return _refused_by_proxy(config, "407 Proxy Authentication Required")
    return None


def _may_be_unreached(probe: Probe) -> bool:
    if probe.error is None:
        return True
    if probe.config.tls is not None:
        # Its files may be the cause, whatever the error is.
        return True
    # A server that sent something other than the first event of a stream was reached.
    is_lost = isinstance(probe.error, ConnectionError)
    return is_lost and not any(it in str(probe.error) for it in NO_EVENTS)


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


def _unreached(config: ServerConfig, seen: TcpProbe) -> Finding | None:
    name, url = config.name, config.target
    if seen.code in _TLS_REMEDIES:
        return _handshake_failed(config, seen)
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
        case "bad_tls":
            what = f"The certificates for server {name!r} cannot be used: {shown(seen.reason)}"
            remedy = "Correct `tls` in its entry, or the environment variable that is named."
        case "proxy_unreachable":
            what = (
                f"The proxy {seen.proxy} on the way to server {name!r} cannot be reached "
                f"({shown(seen.reason)})."
            )
            remedy = _CHOOSE_PROXY
        case "proxy_refused":
            return _refused_by_proxy(config, seen.reason, f" {seen.proxy}")
        case _:
            return None
    return found(seen.code, what, remedy, server=name)


_CHOOSE_PROXY = (
    "Check the `proxy` of its entry, or the environment variables HTTPS_PROXY, HTTP_PROXY and "
    'NO_PROXY. If the server needs no proxy, write `"proxy": false` into its entry.'
)


def _refused_by_proxy(config: ServerConfig, status: str, which: str = "") -> Finding:
    remedy = _CHOOSE_PROXY
    if status.startswith("407"):
        remedy = (
            "Write the user and the password into the `proxy` of its entry: "
            '`"proxy": "http://USER:${PROXY_PASSWORD}@HOST:PORT"`.'
        )
    what = (
        f"The proxy{which} does not connect to server {config.name!r} ({config.target}): "
        f"HTTP {shown(status)}."
    )
    return found("proxy_refused", what, remedy, server=config.name)


def _handshake_failed(config: ServerConfig, seen: TcpProbe) -> Finding:
    name, url, remedy = config.name, config.target, _TLS_REMEDIES[seen.code]
    scheme = urlsplit(config.url or "").scheme
    what = f"Server {name!r} ({url}) {shown(seen.reason)}."
    if seen.code == "tls_not_spoken":
        plain = {"wss": "ws"}.get(scheme, "http")
        what = f"Server {name!r} ({url}) speaks plain HTTP, but its `url` says `{scheme}`."
        remedy = f'Write `"url": "{with_scheme(url, plain)}"`.'
    shows = config.tls.client_cert if config.tls is not None else None
    if seen.code == "tls_client_certificate" and shows is not None:
        remedy = (
            f"Check that the server accepts the certificate in {shows} (`tls.client_cert`), and "
            "that it has not expired; otherwise ask the operator of the server for another one."
        )
    return found(seen.code, what, remedy, server=name)
