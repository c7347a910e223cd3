"""TLS for tests: an authority, the certificates that it signs, and servers that speak TLS."""

import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HELLO = b"hello"
_PEM = serialization.Encoding.PEM


class Authority:
    """Signs certificates; ``ca`` is the file that a client has to trust."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._number = 0
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        built = _builder(self._name, self._name, self._key, days=(-30, 30)).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._certificate = built.sign(self._key, hashes.SHA256())
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(self._certificate.public_bytes(_PEM))

    def sign(
        self,
        address: str = "127.0.0.1",
        *,
        days: tuple[int, int] = (-1, 1),
        password: bytes | None = None,
    ) -> Path:
        """Return the file with a new certificate and its key, valid between these days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        built = _builder(_named("test"), self._name, key, days=days).add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False
        )
        certificate = built.sign(self._key, hashes.SHA256())
        self._number += 1
        path = self._folder / f"{self.ca.stem}-{self._number}.pem"
        path.write_bytes(_private(key, password) + certificate.public_bytes(_PEM))
        return path


def self_signed(folder: Path) -> Path:
    """Return the file with a certificate that no authority has signed, and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _named("alone")
    built = _builder(name, name, key, days=(-1, 1)).add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
    )
    path = folder / "self-signed.pem"
    path.write_bytes(_private(key) + built.sign(key, hashes.SHA256()).public_bytes(_PEM))
    return path


def server_context(path: Path, *, client_ca: Path | None = None) -> ssl.SSLContext:
    """Return the context of a server; with ``client_ca``, it requires a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)
    return context


@contextmanager
def listening(context: ssl.SSLContext | None, said: bytes = b"") -> Generator[int]:
    """A server in a thread; unlike asyncio's, it sends TLS alerts. Without a context, plain TCP."""
    listener = socket.create_server(("127.0.0.1", 0))
    is_over = False

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                if is_over:
                    return
                connection.settimeout(5)
                with suppress(OSError):
                    _serve(connection, context, said)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        is_over = True
        socket.create_connection(listener.getsockname()).close()
        thread.join()
        listener.close()


def _serve(connection: socket.socket, context: ssl.SSLContext | None, said: bytes) -> None:
    if context is None:
        connection.recv(1000)
        connection.sendall(said)
        return
    with context.wrap_socket(connection, server_side=True) as secure:
        secure.sendall(HELLO)


def split(path: Path) -> tuple[Path, Path]:
    """Return the certificate and the key of a file in two files."""
    text = path.read_text("ascii")
    start = text.index("-----BEGIN CERTIFICATE")
    certificate, key = path.with_suffix(".crt"), path.with_suffix(".key")
    certificate.write_text(text[start:], "ascii")
    key.write_text(text[:start], "ascii")
    return certificate, key


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: tuple[int, int]
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now + timedelta(days=days[0]),
        not_valid_after=now + timedelta(days=days[1]),
    )


def _private(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    hidden = (
        serialization.NoEncryption()
        if password is None
        else serialization.BestAvailableEncryption(password)
    )
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, hidden)
