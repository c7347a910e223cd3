"""TLS to a server: its context with CA and client certificate, and why a handshake failed."""

import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, cast

from pegboard.config.servers import TlsConfig
from pegboard.errors import ConfigError

__all__ = ["TlsFault", "TlsFaultKind", "explain_tls_error", "tls_context", "tls_fault"]

TlsFaultKind = Literal[
    "expired",
    "not_yet_valid",
    "wrong_name",
    "untrusted",
    "client_certificate",
    "version",
    "not_spoken",
    "no_answer",
    "closed",
    "other",
]
"""What is wrong with a TLS handshake.

``client_certificate`` means that the server wants another one. It may say so only after a request
was written, but it has not read that request.
"""


class TlsFault(NamedTuple):
    """Why a TLS handshake failed."""

    kind: TlsFaultKind
    words: str
    """A clause about the server in the third person: "has a certificate that has expired"."""


def tls_context(tls: TlsConfig | None) -> ssl.SSLContext:
    """Return the context for connections to a server; it always verifies the certificate and host.

    SSL_CERT_FILE or SSL_CERT_DIR replace the CA certificates of the system; `tls.ca` is added to
    them. This function reads files, so call it in a thread.

    Raises:
        ConfigError: when a file cannot be used; its message names the setting and the file.
    """
    context = _environment_context()
    context.set_alpn_protocols(["http/1.1"])
    if tls is not None and tls.ca is not None:
        _trust(context, Path(tls.ca))
    if tls is not None and tls.client_cert is not None:
        _show(context, tls.client_cert, tls.client_key, tls.client_key_password)
    return context


def _environment_context() -> ssl.SSLContext:
    # Imported here: a server without TLS does not need this library, which loads slowly.
    import httpx2  # noqa: PLC0415

    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        path = os.environ.get(variable)
        if path:
            remedy = "Correct the environment variable, or unset it."
            if variable == "SSL_CERT_FILE":
                _check_file(variable, path, remedy)
            elif not Path(path).is_dir():
                raise ConfigError(
                    f"{variable} names a folder that does not exist: {path}. {remedy}"
                )
            break
    try:
        return httpx2.create_ssl_context()
    except (OSError, ValueError) as error:
        where = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
        raise ConfigError(
            f"The CA certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be read: {where}. Name "
            "a file of certificates in PEM format."
        ) from error


def _trust(context: ssl.SSLContext, path: Path) -> None:
    # The authority to trust may be one that another authority has signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if path.is_dir():
        try:
            # OpenSSL itself looks only at files that are named by a hash.
            files = [it for it in sorted(path.iterdir()) if it.is_file()]
        except OSError as error:
            raise _unreadable("`tls.ca`", str(path), error) from error
        if not sum(_has_trusted(context, it) for it in files):
            raise ConfigError(
                f"`tls.ca` names a folder without CA certificates: {path}. Put the certificates "
                "into it as PEM files."
            )
        return
    _check_file("`tls.ca`", str(path), "Correct the path.")
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise ConfigError(
            f"`tls.ca` names a file without a certificate in PEM format: {path}. A PEM file has "
            "lines that say BEGIN CERTIFICATE; convert other formats with `openssl x509`."
        ) from error


def _has_trusted(context: ssl.SSLContext, file: Path) -> bool:
    try:
        context.load_verify_locations(file)
    except OSError:
        return False
    return True


def _show(context: ssl.SSLContext, cert: str, key: str | None, password: str | None) -> None:
    _check_file("`tls.client_cert`", cert, "Correct the path.")
    if key is not None:
        _check_file("`tls.client_key`", key, "Correct the path.")
    was_asked = False

    def answer() -> str:
        # Without a function, OpenSSL would ask for the password at the terminal.
        nonlocal was_asked
        was_asked = True
        return password or ""

    try:
        context.load_cert_chain(cert, key, answer)
    except (OSError, ValueError) as error:
        raise ConfigError(_why_not_shown(error, cert, key, is_encrypted=was_asked)) from error


def _why_not_shown(error: Exception, cert: str, key: str | None, *, is_encrypted: bool) -> str:
    where = f"`tls.client_cert` ({cert})" if key is None else f"`tls.client_key` ({key})"
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return (
            f"The key in {where} does not belong to the certificate in {cert}. Name the key that "
            "the certificate was issued for."
        )
    if is_encrypted:
        return (
            f"The key in {where} is encrypted, and `tls.client_key_password` does not open it. "
            "Set the password of the key."
        )
    if b"-----BEGIN CERTIFICATE" not in _content(cert):
        return f"`tls.client_cert` names a file without a certificate in PEM format: {cert}."
    if key is None and b"PRIVATE KEY-----" not in _content(cert):
        return f"{where} contains no private key. Name the file of the key in `tls.client_key`."
    return f"The certificate or the key in {where} is damaged, or not in PEM format."


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _check_file(setting: str, path: str, remedy: str) -> None:
    try:
        with Path(path).open("rb"):
            return
    except FileNotFoundError as error:
        raise ConfigError(
            f"{setting} names a file that does not exist: {path}. {remedy}"
        ) from error
    except OSError as error:
        raise _unreadable(setting, path, error) from error


def _unreadable(setting: str, path: str, error: OSError) -> ConfigError:
    remedy = "Name a file." if isinstance(error, IsADirectoryError) else "Check its permissions."
    reason = error.strerror or str(error)
    return ConfigError(f"{setting} names what cannot be read: {path} ({reason}). {remedy}")


# The numbers are those of OpenSSL's X509_V_ERR_….
_VERIFY_CODES: dict[int, TlsFault] = {
    9: TlsFault("not_yet_valid", "has a certificate that is not valid yet"),
    10: TlsFault("expired", "has a certificate that has expired"),
    18: TlsFault("untrusted", "has a self-signed certificate, which is not trusted"),
    19: TlsFault("untrusted", "has a certificate of a CA that is not trusted"),
    20: TlsFault("untrusted", "has a certificate of an unknown CA"),
    21: TlsFault("untrusted", "has a certificate of an unknown CA"),
    23: TlsFault("other", "has a certificate that was revoked"),
    62: TlsFault("wrong_name", "has a certificate for another host name"),
    64: TlsFault("wrong_name", "has a certificate for another host name"),
}
# macOS and Windows verify certificates themselves, with words of their own.
_VERIFY_WORDS = {"expired": 10, "not yet valid": 9, "mismatch": 62, "not valid for": 62}
_REFUSED = TlsFault("client_certificate", "does not accept the client certificate")
_IN_CLEAR = TlsFault("not_spoken", "does not speak TLS on this port")
_OLD = TlsFault("version", "speaks no version of TLS that is still safe")
_REASONS: dict[str, TlsFault] = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": TlsFault(
        "client_certificate", "requires a client certificate"
    ),
    "SSLV3_ALERT_HANDSHAKE_FAILURE": TlsFault(
        "client_certificate",
        "refuses the TLS handshake: it may require a client certificate, or other ciphers",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": TlsFault(
        "client_certificate", "does not accept the client certificate, which has expired"
    ),
    "TLSV1_ALERT_UNKNOWN_CA": TlsFault(
        "client_certificate", "does not know the CA of the client certificate"
    ),
    "SSLV3_ALERT_BAD_CERTIFICATE": _REFUSED,
    "SSLV3_ALERT_CERTIFICATE_REVOKED": _REFUSED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _REFUSED,
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": _REFUSED,
    "TLSV1_ALERT_ACCESS_DENIED": _REFUSED,
    "TLSV1_ALERT_DECRYPT_ERROR": _REFUSED,
    "TLSV1_ALERT_PROTOCOL_VERSION": _OLD,
    "UNSUPPORTED_PROTOCOL": _OLD,
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": _OLD,
    "TLSV1_UNRECOGNIZED_NAME": TlsFault("wrong_name", "does not serve this host name"),
    "WRONG_VERSION_NUMBER": _IN_CLEAR,
    "HTTP_REQUEST": _IN_CLEAR,
    "HTTPS_PROXY_REQUEST": _IN_CLEAR,
    "UNKNOWN_PROTOCOL": _IN_CLEAR,
    "PACKET_LENGTH_TOO_LONG": _IN_CLEAR,
    "RECORD_LAYER_FAILURE": _IN_CLEAR,
}
_CLOSED = TlsFault("closed", "closed the connection during the TLS handshake")
_SILENT = TlsFault("no_answer", "did not finish the TLS handshake in time")
_DEEPEST = 12


def tls_fault(error: BaseException) -> TlsFault | None:
    """Return why TLS failed, if that is what an error of an HTTP client or a socket means."""
    for cause, is_opening in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _certificate_fault(cause)
        if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return _CLOSED if is_opening or cause is error else None
        if isinstance(cause, ssl.SSLError):
            reason = cause.reason or "unknown reason"
            words = reason.replace("_", " ").lower()
            return _REASONS.get(reason) or TlsFault("other", f"breaks TLS: {words}")
        if isinstance(cause, ConnectionAbortedError) and "SSL handshake" in str(cause):
            return _SILENT
        if isinstance(cause, ConnectionResetError | ConnectionAbortedError) and is_opening:
            return _CLOSED
    return None


def explain_tls_error(error: BaseException, host: str) -> str | None:
    """Return a clause that names the host and the cause; ``None`` if TLS is not the cause.

    Args:
        error: what was raised for an `https` or `wss` address.
        host: the host of the address.
    """
    fault = tls_fault(error)
    return None if fault is None else f"the host {host!r} {fault.words}"


def _causes(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """Yield an error and those behind it, and whether a connection was being opened."""
    waiting, seen = [(error, False)], set[int]()
    while waiting and len(seen) < _DEEPEST:
        found, is_opening = waiting.pop(0)
        if id(found) in seen:
            continue
        seen.add(id(found))
        # aiohttp's errors of a connection that was not opened have one; others have neither.
        inner: list[object] = [getattr(found, it, None) for it in ("certificate_error", "os_error")]
        if any(isinstance(it, BaseException) for it in inner):
            # Some of them are subclasses of the errors of `ssl`, without their attributes.
            is_opening = True
        else:
            yield found, is_opening
        if isinstance(found, BaseExceptionGroup):
            inner += cast("BaseExceptionGroup[BaseException]", found).exceptions
        inner += [found.__cause__, found.__context__, *found.args]
        waiting += [(it, is_opening) for it in inner if isinstance(it, BaseException)]


def _certificate_fault(error: ssl.SSLCertVerificationError) -> TlsFault:
    message = str(getattr(error, "verify_message", "") or error)
    code = getattr(error, "verify_code", 0)
    if code not in _VERIFY_CODES:
        code = next((number for word, number in _VERIFY_WORDS.items() if word in message), 0)
    told = message.strip().rstrip(".")
    return _VERIFY_CODES.get(code) or TlsFault("untrusted", f"has an invalid certificate: {told}")
