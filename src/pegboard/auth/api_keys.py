"""ApiKeys: the keys of all tenants, kept in the operator's store."""

import hmac
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple, Self

import anyio
import anyio.to_thread
import msgspec

from pegboard.auth.key_record import (
    ApiKey,
    IssuedKey,
    KeyGrant,
    SecretHash,
    StoredKey,
    check_tenant,
    digest_of,
    is_id,
    new_id,
    new_secret,
    parse_key,
)
from pegboard.errors import (
    ApiKeyNotFoundError,
    RevisionConflictError,
    StorageError,
    UnauthenticatedError,
)
from pegboard.model.fork_guard import GuardedLock
from pegboard.model.principal import OPERATOR, Principal
from pegboard.storage import Store, StoreChange, Use
from pegboard.storage.write_behind import WriteBehind

__all__ = ["KEYS", "ApiKeys", "stored_key"]

logger: logging.Logger = logging.getLogger("pegboard.auth")

KEYS = "api_keys"
"""The namespace of the operator's store in which keys are kept."""
MAX_SECRETS = 5
FORGOTTEN_AFTER = 90 * 24 * 3600.0
"""Seconds for which a key that is revoked or expired is still shown."""
ATTEMPTS = 20
LOOKS_A_SECOND = 5
"""How often the store is asked for keys that nobody has: guessing must not cost it anything."""
_LOOK_WITHIN = 1.0


class _Known(NamedTuple):
    """One secret of one key, ready to be compared."""

    salt: bytes
    digest: bytes
    principal: Principal
    revoked: bool


# Compared where there is no such key, so that it takes as long as where there is one.
_DECOY = (_Known(bytes(16), bytes(32), Principal(subject=""), revoked=False),)


class ApiKeys:
    """The keys that open the gateway; all of them are in memory, and follow the store.

    A key that another process revokes is refused here within a second; one that it makes is
    looked for when it is first used. While the store cannot be reached, what was known last
    counts. Methods that read or write the store block.

    Args:
        store: the operator's, that is, opened with ``tenant=OPERATOR``.
    """

    def __init__(self, store: Store) -> None:
        if store.tenant != OPERATOR:
            raise ValueError(
                f"Keys are kept by the operator: open the store with tenant={OPERATOR!r}."
            )
        self._store = store
        self._keys = store.namespace(KEYS)
        self._known: Mapping[str, tuple[_Known, ...]] = {}
        self.damaged: tuple[str, ...] = ()
        """The ids under which something is kept that is no key; nobody is let in by them."""
        self._reading = GuardedLock("store of API keys", threading.Lock())
        self._looks: int = LOOKS_A_SECOND
        self._looks_since: float = 0.0
        self._noting = GuardedLock("store of API keys", threading.Lock())
        self._uses: dict[str, Use] = {}
        self._flushing = WriteBehind(self.flush, owner="store of API keys")
        # Before the first look, so that nothing is missed between the two.
        self._stop = store.watch(self._follow)
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def recognizes(self, credential: str) -> bool:
        """Tell whether a credential is meant to be one of these keys."""
        return credential.startswith("pb_")

    async def authenticate(self, credential: str) -> Principal:
        """Return who has this key; waits for the store, a second at most, if nobody is known to.

        Raises:
            AuthenticationFailedError: when nobody has, or not any more.
        """
        parsed = parse_key(credential)
        if parsed is None:
            raise UnauthenticatedError(
                "This is not the whole API key: it has the form `pb_<id>_<64 hexadecimal digits>`.",
                reason="malformed",
            )
        key, secret = parsed
        found = self._find(key, secret)
        # Whether the id is known or not: somebody may just have made it, or given it a new secret.
        if found is None and self._may_look():
            with anyio.move_on_after(_LOOK_WITHIN):
                await anyio.to_thread.run_sync(self._look_for, key, abandon_on_cancel=True)
            found = self._find(key, secret)
        if found is None:
            raise UnauthenticatedError("Nobody has this API key.", reason="unknown")
        now = time.time()
        _refuse_if_over(found, now)
        self._note_use(key, now)
        return found.principal

    def create(self, grant: KeyGrant) -> IssuedKey:
        """Make a key; its secret is in the answer, and nowhere else.

        Raises:
            ValueError: when no key can be made for that.
            StorageError: when it could not be kept.
        """
        grant.checked()
        self._forget_old()
        key = new_id()
        secret, kept = new_secret(key)
        granted = msgspec.structs.asdict(grant)
        stored = StoredKey(**granted, id=key, created=time.time(), secrets=(kept,))
        self._keys.put(key, _as_json(stored), expected=None)
        self._read()
        return IssuedKey(stored.shown(), secret)

    def list(self, *, tenant: str | None = None) -> list[ApiKey]:
        """Return all keys, or those of one tenant, the oldest first; never their secrets.

        Raises:
            StorageError: when they cannot be read.
        """
        self.flush()
        # A store counts how often tools are used; the operator's has none, and counts keys.
        usage = self._store.usage()
        stored = (_stored(key, it.value) for key, it in self._keys.items().items())
        shown = [it.shown(usage.get(it.id)) for it in stored if it is not None]
        mine = [it for it in shown if tenant in (None, it.tenant)]
        return sorted(mine, key=lambda it: (it.created, it.id))

    def revoke(self, key: str) -> ApiKey:
        """Accept a key no more, in all processes within a second.

        Raises:
            ApiKeyNotFoundError: when there is no key with this id.
            StorageError: when that could not be kept.
        """

        def revoked(stored: StoredKey) -> StoredKey:
            since = time.time() if stored.revoked is None else stored.revoked
            return msgspec.structs.replace(stored, revoked=since)

        return self._change(key, revoked).shown()

    def rotate(self, key: str, *, overlap: float = 0.0) -> IssuedKey:
        """Give a key a new secret; the old one is accepted for some seconds more.

        Raises:
            ApiKeyNotFoundError: when there is no key with this id.
            ValueError: when it is revoked or has expired, or the overlap is not a time.
            StorageError: when that could not be kept.
        """
        if not 0 <= overlap < float("inf"):
            raise ValueError(f"The overlap is a number of seconds from 0 on, not {overlap:g}.")
        secret, kept = new_secret(key)

        def rotated(stored: StoredKey) -> StoredKey:
            now = time.time()
            if stored.revoked is not None or (stored.expires or now + 1) <= now:
                raise ValueError(f"Key {key!r} is not valid any more; create another.")
            old = [_ending(it, now + overlap) for it in stored.secrets]
            lasting = [it for it in old if it.until is not None and it.until > now]
            return msgspec.structs.replace(stored, secrets=(kept, *lasting[: MAX_SECRETS - 1]))

        return IssuedKey(self._change(key, rotated).shown(), secret)

    def flush(self) -> None:
        """Write down when keys were used.

        Raises:
            StorageError: when that is not possible now; it is kept for the next time.
        """
        with self._noting:
            uses, self._uses = self._uses, {}
        try:
            if uses:
                self._store.add_usage(uses)
        except BaseException:
            with self._noting:
                for key, use in uses.items():
                    self._uses[key] = _together(use, self._uses.get(key))
            raise

    def close(self) -> None:
        """Write down the rest and stop following the store, which stays open."""
        self._stop()
        self._flushing.close()

    def _follow(self, change: StoreChange) -> None:
        if change.everything or KEYS in change.namespaces:
            self._read()

    def _read(self) -> None:
        # One at a time: what was read first must not replace what was read later.
        with self._reading:
            stored = {key: _stored(key, it.value) for key, it in self._keys.items().items()}
            self._known = {key: tuple(_ready(it)) for key, it in stored.items() if it}
            self.damaged = tuple(key for key, it in stored.items() if it is None)

    def _find(self, key: str, secret: str) -> _Known | None:
        found: _Known | None = None
        # All of them, whichever it is: how long it takes tells nothing.
        for known in self._known.get(key, _DECOY):
            if hmac.compare_digest(digest_of(secret, known.salt), known.digest):
                found = known
        return found

    def _may_look(self) -> bool:
        now = time.monotonic()
        if now - self._looks_since >= 1:
            self._looks_since, self._looks = now, LOOKS_A_SECOND
        self._looks -= 1
        return self._looks >= 0

    def _look_for(self, key: str) -> None:
        if key in self.damaged or not self._reading.acquire(timeout=_LOOK_WITHIN):
            return
        try:
            found = self._keys.get(key)
            stored = None if found is None else _stored(key, found.value)
            if stored is not None:
                self._known = {**self._known, key: tuple(_ready(stored))}
        except StorageError as error:
            logger.debug("api_key_not_looked_for: %s", error, extra={"reason": str(error)})
        finally:
            self._reading.release()

    def _note_use(self, key: str, now: float) -> None:
        use = Use(1, datetime.fromtimestamp(now, UTC))
        with self._noting:
            self._uses[key] = _together(use, self._uses.get(key))
        self._flushing.wake()

    def _change(self, key: str, change: Callable[[StoredKey], StoredKey]) -> StoredKey:
        for attempt in range(1, ATTEMPTS + 1):
            found = self._keys.get(key) if is_id(key) else None
            stored = None if found is None else _stored(key, found.value)
            if found is None or stored is None:
                raise ApiKeyNotFoundError(key)
            changed = change(stored)
            try:
                self._keys.put(key, _as_json(changed), expected=found.revision)
            except RevisionConflictError:
                if attempt == ATTEMPTS:
                    raise
                continue
            self._read()
            return changed
        raise AssertionError("unreachable")

    def _forget_old(self) -> None:
        """Forget keys that have been good for nothing for a long time."""
        long_ago = time.time() - FORGOTTEN_AFTER
        ends = {it.id: (it.expires, it.revoked) for it in self.list()}
        old = [key for key, both in ends.items() if any(it and it < long_ago for it in both)]
        if old:
            self._keys.delete(old)
            for key in old:
                self._store.delete(key)


def _refuse_if_over(found: _Known, now: float) -> None:
    if found.revoked:
        raise UnauthenticatedError("This API key was revoked.", reason="revoked")
    expires = found.principal.expires
    if expires is not None and expires <= now:
        raise UnauthenticatedError("This API key has expired.", reason="expired")


def _ending(secret: SecretHash, until: float) -> SecretHash:
    ends = until if secret.until is None else min(until, secret.until)
    return msgspec.structs.replace(secret, until=ends)


def _ready(key: StoredKey) -> Iterator[_Known]:
    for secret in key.secrets:
        yield _Known(
            bytes.fromhex(secret.salt),
            bytes.fromhex(secret.digest),
            key.principal(secret),
            revoked=key.revoked is not None,
        )


def _as_json(key: StoredKey) -> object:
    return msgspec.json.decode(msgspec.json.encode(key))


def stored_key(key: str, value: object) -> StoredKey:
    """Return what is kept of a key under its id.

    Raises:
        ValueError: when it is damaged.
    """
    stored = msgspec.convert(value, StoredKey)
    check_tenant(stored.tenant)
    tuple(_ready(stored))
    if stored.id != key:
        raise ValueError("It is kept under the id of another key.")
    return stored


def _stored(key: str, value: object) -> StoredKey | None:
    try:
        return stored_key(key, value)
    except ValueError as error:
        # Whoever has it is refused; nobody else is harmed.
        logger.error("api_key_damaged: %s: %s", key, error)  # noqa: TRY400 - the rest says nothing
        return None


def _together(use: Use, other: Use | None) -> Use:
    if other is None:
        return use
    return Use(use.count + other.count, max(use.last_used, other.last_used))
