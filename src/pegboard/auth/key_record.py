"""The record of an API key: what it grants, its id, and the salted hash of its secret."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Self, cast

import msgspec

from pegboard.auth.key_hash import SecretHash
from pegboard.model import Usage
from pegboard.model.principal import DEFAULT_TENANT, OPERATOR, Principal, Scope, Surface
from pegboard.storage import check_key

__all__ = [
    "ApiKey",
    "IssuedKey",
    "KeyGrant",
    "StoredKey",
    "check_tenant",
    "grant_of_maker",
    "maker_in",
    "with_ends_of_makers",
]

MAX_NAME_LENGTH = 200
MAX_PATTERNS = 200


class KeyGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What a key grants."""

    name: str = ""
    """A name for people: whom or what the key was made for."""
    tenant: str = DEFAULT_TENANT
    scopes: tuple[Scope, ...] = ("call",)
    servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    expires: float | None = None
    """Seconds since the epoch; ``None`` for a key that is valid until it is revoked."""
    surface: Surface | None = None
    """The surface that the client sees unless the address names one."""
    calls_per_minute: int | None = None
    concurrent_calls: int | None = None

    def checked(self) -> Self:
        """Return the grant itself if it is valid.

        Raises:
            ValueError: when it is not.
        """
        try:
            msgspec.convert(msgspec.to_builtins(self), type(self))
        except msgspec.ValidationError as error:
            raise ValueError(f"The grant of the key is not valid: {error}.") from error
        check_tenant(self.tenant)
        if not self.scopes:
            raise ValueError("A key needs at least one scope: read, call, register or admin.")
        if len(self.name) > MAX_NAME_LENGTH or not self.name.isprintable():
            raise ValueError(
                f"The name of a key has at most {MAX_NAME_LENGTH} printable characters."
            )
        _check_patterns("server", self.servers)
        _check_patterns("tool", self.tools)
        if self.expires is not None and not time.time() < self.expires < float("inf"):
            raise ValueError("A key must expire in the future: give a later time, or none.")
        for limit in (self.calls_per_minute, self.concurrent_calls):
            if limit is not None and limit < 1:
                raise ValueError(f"A call limit is at least 1, not {limit}.")
        return self


class ApiKey(KeyGrant, frozen=True, kw_only=True):
    """A key as listed: everything but the secret."""

    id: str
    created: float
    revoked: float | None = None
    """When the key was revoked, if it was."""
    last_used: float | None = None
    """When a client last used the key; written every two seconds."""
    uses: int = 0
    """How many requests used the key."""
    maker: str | None = None
    """The subject whose session at the console made the key; ``None`` for the operator. If it is a
    key, this one counts as revoked once that one does."""


class IssuedKey(msgspec.Struct, frozen=True):
    """A new key with its secret, which is shown only this once."""

    key: ApiKey
    secret: str
    """What the client sends: ``pb_<id>_<64 hexadecimal digits>``."""

    def __repr__(self) -> str:
        return f"IssuedKey({self.key.id!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # Without this, Rich shows every field.
        return [("id", self.key.id)]


class StoredKey(ApiKey, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key as it is stored.

    A field with a damaged name is refused: its default would lift the limit that it set.
    """

    secrets: tuple[SecretHash, ...] = ()

    def shown(self, usage: Usage | None = None) -> ApiKey:
        """Return the key without the hashes, and how it was used."""
        shown = msgspec.convert(msgspec.to_builtins(self), ApiKey)
        if usage is None or usage.last_used is None:
            return shown
        last = usage.last_used.timestamp()
        return msgspec.structs.replace(shown, last_used=last, uses=usage.use_frequency)

    def principal(self, secret: SecretHash) -> Principal:
        """Return the principal of a client that sends this secret of the key."""
        ends = [it for it in (self.expires, secret.until, self.revoked) if it is not None]
        return Principal(
            tenant=self.tenant,
            subject=f"pb_{self.id}",
            scopes=frozenset(self.scopes),
            servers=self.servers,
            tools=self.tools,
            expires=min(ends, default=None),
            surface=self.surface,
            calls_per_minute=self.calls_per_minute,
            concurrent_calls=self.concurrent_calls,
        )


def with_ends_of_makers(keys: Mapping[str, StoredKey]) -> dict[str, StoredKey]:
    """Return the keys, in which one whose maker is a key that was revoked is revoked, too.

    So is one whose maker is gone.
    """
    return {key: _ended(it, keys) for key, it in keys.items()}


def maker_in(key: ApiKey) -> str | None:
    """Return the id of the key whose session made a key, if one did."""
    is_key = key.maker is not None and key.maker.startswith("pb_")
    return key.maker.removeprefix("pb_") if key.maker is not None and is_key else None


def grant_of_maker(grant: KeyGrant, maker: Principal) -> KeyGrant:
    """Return the grant of a key that a caller makes; it ends when that of its maker ends.

    Raises:
        ValueError: when the maker may not do itself what the key would grant.
    """
    if grant.tenant != maker.tenant:
        raise ValueError(f"You can make keys only of your own tenant, {maker.tenant!r}.")
    for kind, own, wanted in (
        ("server", maker.servers, grant.servers),
        ("tool", maker.tools, grant.tools),
    ):
        if "*" not in own and not set(wanted) <= set(own):
            raise ValueError(f"The {kind} patterns of a key you make are among your own.")
    for limit in ("calls_per_minute", "concurrent_calls"):
        own, wanted = getattr(maker, limit), getattr(grant, limit)
        if own is not None and (wanted is None or wanted > own):
            raise ValueError(f"`{limit}` of a key you make is at most your own, {own}.")
    ends = [it for it in (grant.expires, maker.expires) if it is not None]
    return msgspec.structs.replace(grant, expires=min(ends, default=None))


def check_tenant(tenant: object) -> str:
    """Return the name of a tenant if a caller can belong to it.

    Raises:
        ValueError: when the name is not valid, or is the operator's.
    """
    if check_key("tenant", tenant) == OPERATOR:
        raise ValueError(
            f"No caller can belong to the tenant {OPERATOR!r}: the API keys are kept there."
        )
    return cast("str", tenant)


def _ended(key: StoredKey, keys: Mapping[str, StoredKey]) -> StoredKey:
    makers, passed = key, {key.id}
    while makers.revoked is None and (maker := maker_in(makers)) is not None:
        if maker not in keys or maker in passed:
            return msgspec.structs.replace(key, revoked=makers.created)
        passed.add(maker)
        makers = keys[maker]
    return msgspec.structs.replace(key, revoked=makers.revoked)


def _check_patterns(kind: str, patterns: Iterable[str]) -> None:
    found = tuple(patterns)
    if not 0 < len(found) <= MAX_PATTERNS:
        raise ValueError(f"A key has 1 to {MAX_PATTERNS} {kind} patterns; `*` stands for all.")
    for pattern in found:
        if len(pattern) > MAX_NAME_LENGTH or not pattern.isprintable():
            raise ValueError(
                f"A {kind} pattern has at most {MAX_NAME_LENGTH} printable characters."
            )
