"""A certificate for servers on this machine, and the environment of a client that trusts it."""

import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The file that a server loads, and what makes a client trust the server."""

    server: Path
    trust: Mapping[str, str]


@contextmanager
def certificate() -> Iterator[Certificate]:
    """Make an authority, and a certificate of it for 127.0.0.1, in a folder that is removed."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _signed(authority_key, authority_key, for_server=False)
    leaf = _signed(key, authority_key, for_server=True)
    plain = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with TemporaryDirectory() as folder:
        server, trusted = Path(folder) / "server.pem", Path(folder) / "authority.pem"
        server.write_bytes(leaf.public_bytes(PEM) + plain)
        trusted.write_bytes(authority.public_bytes(PEM))
        yield Certificate(server=server, trust={"SSL_CERT_FILE": str(trusted)})


def _signed(
    key: ec.EllipticCurvePrivateKey, issuer: ec.EllipticCurvePrivateKey, *, for_server: bool
) -> x509.Certificate:
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())
    signs = not for_server
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name("server" if for_server else "authority"))
        .issuer_name(_name("authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(authority, critical=False)
        .add_extension(usage, critical=True)
    )
    if for_server:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer, hashes.SHA256())


def _name(words: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Pegboard's bench: {words}")])
