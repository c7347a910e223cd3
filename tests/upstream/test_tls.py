import socket
import ssl
from pathlib import Path

import pytest

from pegboard.config import TlsConfig
from pegboard.errors import ConfigError
from pegboard.upstream.http.tls import explain_tls_error, tls_context, tls_fault
from tests.tls import HELLO, Authority, listening, self_signed, server_context, split


def read_from(port: int, tls: TlsConfig | None) -> bytes:
    context = tls_context(tls)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        return secure.recv(100)


def failure(context: ssl.SSLContext | None, tls: TlsConfig | None, said: bytes = b"") -> OSError:
    with listening(context, said) as port, pytest.raises(OSError) as caught:
        read_from(port, tls)
    return caught.value


@pytest.fixture(autouse=True)
def _system_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_a_private_ca_is_trusted_in_addition_to_those_of_the_system(authority: Authority) -> None:
    with listening(server_context(authority.sign())) as port:
        assert read_from(port, TlsConfig(ca=str(authority.ca))) == HELLO
    system = tls_context(None).cert_store_stats()["x509_ca"]
    assert tls_context(TlsConfig(ca=str(authority.ca))).cert_store_stats()["x509_ca"] == system + 1


def test_every_certificate_of_a_folder_is_trusted(tmp_path: Path) -> None:
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    (tmp_path / "notes.txt").write_text("no certificate", "ascii")
    for authority in (first, second):
        with listening(server_context(authority.sign())) as port:
            assert read_from(port, TlsConfig(ca=str(tmp_path))) == HELLO


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_the_environment_replaces_the_authorities_of_the_system(
    variable: str, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Authority(tmp_path, "other")
    is_file = variable == "SSL_CERT_FILE"
    monkeypatch.setenv(variable, str(other.ca if is_file else tmp_path))
    tls = TlsConfig(ca=str(authority.ca))
    assert tls_context(tls).cert_store_stats()["x509_ca"] == (2 if is_file else 1)
    with listening(server_context(authority.sign())) as port:
        assert read_from(port, tls) == HELLO


def test_a_client_certificate_is_shown_to_a_server_that_requires_one(authority: Authority) -> None:
    together, secret = authority.sign(), authority.sign(password=b"hunter2!")
    certificate, key = split(authority.sign())
    ca = str(authority.ca)
    for tls in (
        TlsConfig(ca=ca, client_cert=str(together)),
        TlsConfig(ca=ca, client_cert=str(secret), client_key_password="hunter2!"),
        TlsConfig(ca=ca, client_cert=str(certificate), client_key=str(key)),
    ):
        with listening(server_context(authority.sign(), client_ca=authority.ca)) as port:
            assert read_from(port, tls) == HELLO


def test_the_certificate_and_the_host_are_always_verified() -> None:
    context = tls_context(None)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def refused(tls: TlsConfig) -> str:
    with pytest.raises(ConfigError) as caught:
        tls_context(tls)
    return str(caught.value)


def test_a_file_that_does_not_exist_is_named_with_its_setting(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    for tls, setting in (
        (TlsConfig(ca=missing), "`tls.ca`"),
        (TlsConfig(client_cert=missing), "`tls.client_cert`"),
    ):
        told = refused(tls)
        assert told.startswith(f"{setting} names a file that does not exist: {missing}.")


def test_an_unusable_ca_is_named(tmp_path: Path) -> None:
    junk, folder = tmp_path / "junk.pem", tmp_path / "folder"
    junk.write_text("junk", "ascii")
    folder.mkdir()
    assert f"without a certificate in PEM format: {junk}." in refused(TlsConfig(ca=str(junk)))
    assert f"a folder without CA certificates: {folder}." in refused(TlsConfig(ca=str(folder)))


def test_an_unusable_client_certificate_says_what_is_wrong(
    authority: Authority, tmp_path: Path
) -> None:
    secret = str(authority.sign(password=b"hunter2!"))
    certificate, key = map(str, split(authority.sign()))
    _, other = map(str, split(authority.sign()))
    junk = tmp_path / "junk.pem"
    junk.write_text("junk", "ascii")
    cases = {
        "is encrypted, and `tls.client_key_password` does": TlsConfig(client_cert=secret),
        "Set the password of the key": TlsConfig(
            client_cert=secret, client_key_password="not the password"
        ),
        f"`tls.client_cert` ({certificate}) contains no private key": TlsConfig(
            client_cert=certificate
        ),
        f"The key in `tls.client_key` ({other}) does not belong": TlsConfig(
            client_cert=certificate, client_key=other
        ),
        f"file without a certificate in PEM format: {key}.": TlsConfig(client_cert=key),
        f"`tls.client_key` ({junk}) is damaged": TlsConfig(
            client_cert=certificate, client_key=str(junk)
        ),
        f"names what cannot be read: {tmp_path}": TlsConfig(client_cert=str(tmp_path)),
    }
    for words, tls in cases.items():
        told = refused(tls)
        assert words in told
        assert "not the password" not in told


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_a_wrong_path_in_the_environment_is_named(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=f"{variable} names a .* that does not exist"):
        tls_context(None)


@pytest.mark.parametrize(
    ("days", "kind", "words"),
    [((-9, -1), "expired", "has expired"), ((1, 9), "not_yet_valid", "is not valid yet")],
)
def test_the_age_of_a_certificate_is_explained(
    authority: Authority, days: tuple[int, int], kind: str, words: str
) -> None:
    context = server_context(authority.sign(days=days))
    error = failure(context, TlsConfig(ca=str(authority.ca)))
    assert explain_tls_error(error, "api.test") == (
        f"the host 'api.test' has a certificate that {words}"
    )
    fault = tls_fault(error)
    assert fault is not None
    assert fault.kind == kind


def test_a_certificate_that_is_not_trusted_is_explained(
    authority: Authority, tmp_path: Path
) -> None:
    alone = failure(server_context(self_signed(tmp_path)), None)
    unknown = failure(server_context(authority.sign()), None)
    assert tls_fault(alone) == ("untrusted", "has a self-signed certificate, which is not trusted")
    assert tls_fault(unknown) == ("untrusted", "has a certificate of an unknown CA")


def test_a_certificate_of_another_host_is_explained(authority: Authority) -> None:
    context = server_context(authority.sign("127.0.0.2"))
    error = failure(context, TlsConfig(ca=str(authority.ca)))
    assert tls_fault(error) == ("wrong_name", "has a certificate for another host name")


def test_a_client_certificate_that_is_missing_or_refused_is_explained(
    authority: Authority, tmp_path: Path
) -> None:
    ca, other = str(authority.ca), Authority(tmp_path, "other")
    expired, foreign = str(authority.sign(days=(-9, -1))), str(other.sign())
    for tls, words in (
        (TlsConfig(ca=ca), "requires a client certificate"),
        (TlsConfig(ca=ca, client_cert=expired), "the client certificate, which has expired"),
        (TlsConfig(ca=ca, client_cert=foreign), "does not know the CA of the client certificate"),
    ):
        fault = tls_fault(failure(server_context(authority.sign(), client_ca=authority.ca), tls))
        assert fault is not None
        assert fault.kind == "client_certificate"
        assert words in fault.words


def test_an_older_handshake_that_is_refused_is_explained(authority: Authority) -> None:
    context = server_context(authority.sign(), client_ca=authority.ca)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    fault = tls_fault(failure(context, TlsConfig(ca=str(authority.ca))))
    assert fault is not None
    assert "may require a client certificate" in fault.words


def test_a_port_that_does_not_speak_tls_is_explained() -> None:
    error = failure(None, None, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert tls_fault(error) == ("not_spoken", "does not speak TLS on this port")


def test_a_handshake_that_the_server_ends_is_explained() -> None:
    error = failure(None, None)
    assert tls_fault(error) == ("closed", "closed the connection during the TLS handshake")


class ConnectError(OSError):
    """The form of an HTTP client's error about a connection that could not be opened."""

    def __init__(self, os_error: OSError) -> None:
        super().__init__("Cannot connect")
        self.os_error = os_error


class ConnectCertificateError(ssl.CertificateError):
    """An error of TLS by its type, but without the attributes of one."""

    def __init__(self, certificate_error: Exception) -> None:
        super().__init__()
        self.certificate_error = certificate_error


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def test_the_cause_is_found_behind_the_errors_of_an_http_client(authority: Authority) -> None:
    expired = failure(
        server_context(authority.sign(days=(-9, -1))), TlsConfig(ca=str(authority.ca))
    )
    for error in (
        ConnectError(expired),
        ConnectCertificateError(expired),
        raised_from(RuntimeError("failed"), expired),
        ExceptionGroup("failed", [raised_from(ValueError(), expired)]),
    ):
        assert explain_tls_error(error, "api.test") is not None
    assert tls_fault(ConnectError(ConnectionResetError())) is not None
    late = ConnectionAbortedError("SSL handshake is taking longer than 60.0 seconds")
    assert tls_fault(ConnectError(late)) == (
        "no_answer",
        "did not finish the TLS handshake in time",
    )


@pytest.mark.parametrize(
    "error",
    [
        OSError("disk full"),
        ConnectError(ConnectionRefusedError()),
        raised_from(OSError("read failed"), ConnectionResetError()),
        TimeoutError(),
    ],
)
def test_other_errors_are_not_blamed_on_tls(error: BaseException) -> None:
    assert explain_tls_error(error, "api.test") is None


def test_a_chain_of_errors_that_bites_its_tail_ends() -> None:
    error = RuntimeError()
    error.__cause__ = error
    assert tls_fault(error) is None
