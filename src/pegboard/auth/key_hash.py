"""Hash the secrets of API keys with a salt, and make and parse keys."""

import hmac
import re
import secrets
from typing import Self

import msgspec

__all__ = ["SecretHash", "digest_of", "is_id", "new_id", "new_secret", "parse_key"]

_KEY = re.compile(r"pb_([a-z0-9]{12})_([0-9a-f]{64})", re.ASCII)

_ID = re.compile(r"[a-z0-9]{12}", re.ASCII)

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"

_SALT_BYTES = 16


class SecretHash(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The salted hash of a secret, from which the secret cannot be recovered.

    One round of HMAC-SHA-256 is enough: the secret is 256 random bits, which no attacker can guess
    at any speed. Slow hashes protect passwords that people choose, and would slow every request.
    """

    salt: str
    digest: str
    until: float | None = None
    """When it stops being accepted; a rotated key keeps its old secret for a while."""

    @classmethod
    def of(cls, secret: str) -> Self:
        """Return the hash of a secret, with a salt of its own."""
        salt = secrets.token_hex(_SALT_BYTES)
        return cls(salt=salt, digest=digest_of(secret, bytes.fromhex(salt)).hex())


def new_id() -> str:
    """Return a new random id, without letters that look alike."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(12))


def new_secret(key: str) -> tuple[str, SecretHash]:
    """Return a new secret for the key with this id as a client sends it, and its hash."""
    secret = secrets.token_hex(32)
    return f"pb_{key}_{secret}", SecretHash.of(secret)


def is_id(key: str) -> bool:
    """Tell whether a text can be the id of a key."""
    return _ID.fullmatch(key) is not None


def parse_key(credential: str) -> tuple[str, str] | None:
    """Return the id and the secret in a key, or ``None`` if it has not the form of one."""
    found = _KEY.fullmatch(credential)
    return None if found is None else (found[1], found[2])


def digest_of(secret: str, salt: bytes) -> bytes:
    """Return the salted hash of a secret."""
    return hmac.digest(salt, secret.encode(), "sha256")
