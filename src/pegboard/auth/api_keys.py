"""API keys of all tenants: create, list, revoke, rotate and check them, in the operator's store."""

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

from pegboard.auth.key_hash import SecretHash, digest_of, is_id, new_id, new_secret, parse_key
from pegboard.auth.key_record import (
    ApiKey,
    IssuedKey,
    KeyGrant,
    StoredKey,
    check_tenant,
    maker_in,
    with_ends_of_makers,
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
"""Seconds for which a revoked or expired key is still listed."""
ATTEMPTS = 20
LOOKUPS_PER_SECOND = 5
"""How often the store is asked for unknown keys: clients that guess must not put load on it."""
_LOOKUP_TIMEOUT = 1.0


class _LoadedSecret(NamedTuple):
    """One secret of one key, ready to be compared."""

    salt: bytes
    digest: bytes
    principal: Principal
    revoked: bool


# Compared when the key does not exist, so that this takes as long as for a key that does.
_DECOY = (_LoadedSecret(bytes(16), bytes(32), Principal(subject=""), revoked=False),)


class ApiKeys:
    """The API keys of the gateway, held in memory and kept in step with the store.

    When another process revokes a key, this one refuses it within a second. When another process
    creates a key, this one loads it at its first use. While the store is unavailable, the keys
    that were loaded last stay valid. Methods that read or write the store block.

    Args:
        store: the operator's store, opened with ``tenant=OPERATOR``.
    """

    def __init__(self, store: Store) -> None:
        if store.tenant != OPERATOR:
            raise ValueError(
                f"API keys are kept in the operator's store: open it with tenant={OPERATOR!r}."
            )
        self._store = store
        self._keys = store.namespace(KEYS)
        self._loaded: Mapping[str, tuple[_LoadedSecret, ...]] = {}
        self.damaged: tuple[str, ...] = ()
        """The ids whose stored value is not a valid key; such a key is refused."""
        self._reading = GuardedLock("store of API keys", threading.Lock())
        self._lookups_left: int = LOOKUPS_PER_SECOND
        self._lookups_since: float = 0.0
        self._noting = GuardedLock("store of API keys", threading.Lock())
        self._uses: dict[str, Use] = {}
        self._flushing = WriteBehind(self.flush, owner="store of API keys")
        # Before the first read, so that no change between the two is missed.
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
        """Tell whether a credential has the form of an API key."""
        return credential.startswith("pb_")

    async def authenticate(self, credential: str) -> Principal:
        """Return the principal of an API key; an unknown key is looked up for at most a second.

        Raises:
            UnauthenticatedError: when the key does not exist, is revoked or has expired.
        """
        parsed = parse_key(credential)
        if parsed is None:
            raise UnauthenticatedError(
                "This is not a whole API key. A key has the form "
                "`pb_<id>_<64 hexadecimal digits>`.",
                reason="malformed",
            )
        key, secret = parsed
        found = self._find(key, secret)
        # Even if the id is known: another process may just have created or rotated the key.
        if found is None and self._may_look_up():
            with anyio.move_on_after(_LOOKUP_TIMEOUT):
                await anyio.to_thread.run_sync(self._look_up, key, abandon_on_cancel=True)
            found = self._find(key, secret)
        if found is None:
            raise UnauthenticatedError("This API key does not exist.", reason="unknown")
        now = time.time()
        _refuse_if_over(found, now)
        self._note_use(key, now)
        return found.principal

    def create(self, grant: KeyGrant, *, maker: str | None = None) -> IssuedKey:
        """Create a key; its secret is in the returned value and nowhere else.

        Args:
            grant: what it grants.
            maker: the subject that makes it; see `ApiKey`.

        Raises:
            ValueError: when the grant is not valid.
            StorageError: when the store could not save the key.
        """
        grant.checked()
        self._forget_old()
        key = new_id()
        secret, kept = new_secret(key)
        granted = msgspec.structs.asdict(grant)
        stored = StoredKey(**granted, id=key, created=time.time(), secrets=(kept,), maker=maker)
        self._keys.put(key, _as_json(stored), expected=None)
        self._read()
        return IssuedKey(stored.shown(), secret)

    def list(self, *, tenant: str | None = None) -> list[ApiKey]:
        """Return all keys, or those of one tenant, the oldest first, without their secrets.

        Raises:
            StorageError: when the store cannot be read.
        """
        self.flush()
        # A store counts the uses of tools. The operator's store has no tools and counts key uses.
        usage = self._store.usage()
        valid, _ = self._stored_keys()
        shown = [it.shown(usage.get(it.id)) for it in valid.values()]
        mine = [it for it in shown if tenant in (None, it.tenant)]
        return sorted(mine, key=lambda it: (it.created, it.id))

    def revoke(self, key: str) -> ApiKey:
        """Revoke a key; all processes refuse it within a second.

        Raises:
            ApiKeyNotFoundError: when no key has this id.
            StorageError: when the store could not save the change.
        """

        def revoked(stored: StoredKey) -> StoredKey:
            since = time.time() if stored.revoked is None else stored.revoked
            return msgspec.structs.replace(stored, revoked=since)

        return self._change(key, revoked).shown()

    def rotate(self, key: str, *, overlap: float = 0.0) -> IssuedKey:
        """Give a key a new secret; the old secret stays valid for ``overlap`` more seconds.

        Raises:
            ApiKeyNotFoundError: when no key has this id.
            ValueError: when the key is revoked or has expired, or ``overlap`` is negative.
            StorageError: when the store could not save the change.
        """
        if not 0 <= overlap < float("inf"):
            raise ValueError(f"`overlap` is a number of seconds, at least 0, not {overlap:g}.")
        secret, kept = new_secret(key)
        known = self._stored_keys()[0].get(key)
        is_revoked = known is not None and known.revoked is not None

        def rotated(stored: StoredKey) -> StoredKey:
            now = time.time()
            is_over = is_revoked or stored.revoked is not None
            if is_over or (stored.expires or now + 1) <= now:
                raise ValueError(f"Key {key!r} is no longer valid. Create another key.")
            old = [_ending(it, now + overlap) for it in stored.secrets]
            lasting = [it for it in old if it.until is not None and it.until > now]
            return msgspec.structs.replace(stored, secrets=(kept, *lasting[: MAX_SECRETS - 1]))

        return IssuedKey(self._change(key, rotated).shown(), secret)

    def flush(self) -> None:
        """Write the recorded uses of keys to the store.

        Raises:
            StorageError: when the store cannot be written; the uses are kept for the next time.
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
        """Write the remaining uses and stop watching the store, which stays open."""
        self._stop()
        self._flushing.close()

    def _follow(self, change: StoreChange) -> None:
        if change.everything or KEYS in change.namespaces:
            self._read()

    def _read(self) -> None:
        # One at a time: what was read first must not replace what was read later.
        with self._reading:
            stored, self.damaged = self._stored_keys()
            self._loaded = {key: tuple(_ready(it)) for key, it in stored.items()}

    def _stored_keys(self) -> tuple[dict[str, StoredKey], tuple[str, ...]]:
        """Return the keys by id, and the ids of damaged ones."""
        stored = {key: _stored(key, it.value) for key, it in self._keys.items().items()}
        valid = {key: it for key, it in stored.items() if it is not None}
        return with_ends_of_makers(valid), tuple(key for key in stored if key not in valid)

    def _find(self, key: str, secret: str) -> _LoadedSecret | None:
        found: _LoadedSecret | None = None
        # Every secret is compared, so that the time it takes does not tell which one matched.
        for loaded in self._loaded.get(key, _DECOY):
            if hmac.compare_digest(digest_of(secret, loaded.salt), loaded.digest):
                found = loaded
        return found

    def _may_look_up(self) -> bool:
        now = time.monotonic()
        if now - self._lookups_since >= 1:
            self._lookups_since, self._lookups_left = now, LOOKUPS_PER_SECOND
        self._lookups_left -= 1
        return self._lookups_left >= 0

    def _look_up(self, key: str) -> None:
        if key in self.damaged or not self._reading.acquire(timeout=_LOOKUP_TIMEOUT):
            return
        try:
            known: dict[str, StoredKey] = {}
            wanted: str | None = key
            while wanted is not None and wanted not in known:
                found = self._keys.get(wanted)
                stored = None if found is None else _stored(wanted, found.value)
                if stored is None:
                    break
                known[wanted] = stored
                wanted = maker_in(stored)
            found_keys = with_ends_of_makers(known)
            if key in found_keys:
                self._loaded = {**self._loaded, key: tuple(_ready(found_keys[key]))}
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
        """Delete keys that were revoked or expired a long time ago."""
        long_ago = time.time() - FORGOTTEN_AFTER
        ends = {it.id: (it.expires, it.revoked) for it in self.list()}
        old = [key for key, both in ends.items() if any(it and it < long_ago for it in both)]
        if old:
            self._keys.delete(old)
            for key in old:
                self._store.delete(key)


def _refuse_if_over(found: _LoadedSecret, now: float) -> None:
    if found.revoked:
        raise UnauthenticatedError("This API key was revoked.", reason="revoked")
    expires = found.principal.expires
    if expires is not None and expires <= now:
        raise UnauthenticatedError("This API key has expired.", reason="expired")


def _ending(secret: SecretHash, until: float) -> SecretHash:
    ends = until if secret.until is None else min(until, secret.until)
    return msgspec.structs.replace(secret, until=ends)


def _ready(key: StoredKey) -> Iterator[_LoadedSecret]:
    for secret in key.secrets:
        yield _LoadedSecret(
            bytes.fromhex(secret.salt),
            bytes.fromhex(secret.digest),
            key.principal(secret),
            revoked=key.revoked is not None,
        )


def _as_json(key: StoredKey) -> object:
    fields = msgspec.to_builtins(key)
    if key.maker is None:
        # Versions that do not know the field refuse a key that has it.
        del fields["maker"]
    return msgspec.json.decode(msgspec.json.encode(fields))


def stored_key(key: str, value: object) -> StoredKey:
    """Return the stored key with this id.

    Raises:
        ValueError: when the stored value is damaged.
    """
    stored = msgspec.convert(value, StoredKey)
    check_tenant(stored.tenant)
    tuple(_ready(stored))
    if stored.id != key:
        raise ValueError("It is stored under the id of another key.")
    return stored


def _stored(key: str, value: object) -> StoredKey | None:
    try:
        return stored_key(key, value)
    except ValueError as error:
        # Only the clients that use this key are refused.
        logger.error("api_key_damaged: %s: %s", key, error)  # noqa: TRY400 - the rest says nothing
        return None


def _together(use: Use, other: Use | None) -> Use:
    if other is None:
        return use
    return Use(use.count + other.count, max(use.last_used, other.last_used))
