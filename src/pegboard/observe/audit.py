"""Audit log: who did what, with secrets redacted, in a store, in a file, or in both."""

import logging
import os
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from pegboard.config.secret_detection import looks_like_token, secrets_in
from pegboard.errors import StorageError
from pegboard.model import CallRecord, Principal
from pegboard.model.fork_guard import GuardedLock
from pegboard.observe.json_lines import append_lines, open_file_to_append
from pegboard.storage import Store
from pegboard.storage.write_behind import WriteBehind

__all__ = [
    "AUDIT",
    "Audit",
    "AuditOutcome",
    "AuditRecord",
    "record_of_call",
    "redacted",
    "without_secrets",
]

AuditOutcome = Literal["done", "refused", "failed"]
"""Whether the action was done, was refused, or failed."""

LONGEST_TEXT = 300
LOOKED_AT = 1_000
"""How many characters of a text are searched for secrets before it is cut, which may split one."""
_OWN_KEY = re.compile(r"\b(pb_[a-z0-9]{1,12})_[0-9A-Za-z]+")
_NAMES = ("tenant", "subject")
_TEXTS = (*_NAMES, "action", "reason", "target", "source")


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One action, or several equal ones."""

    at: float
    """Seconds since the epoch, of the first of several actions."""
    action: str
    """``authenticate``, ``keys.create``, ``register_tool``, or the method of the request."""
    outcome: AuditOutcome
    reason: str = ""
    """The code of the error, or why the action was refused."""
    tenant: str = ""
    subject: str = ""
    target: str = ""
    """The object of the action: a tool, a prompt, a resource, or the id of a key."""
    source: str = ""
    """Where the request came from."""
    count: int = 1
    """How many equal actions there were within the two seconds between two writes."""
    duration: float | None = None
    """Seconds."""
    arguments_size: int | None = None
    result_size: int | None = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            # A caller that chooses a text must not choose how much of it is kept, even in memory.
            text = getattr(self, name)
            if len(text) > LOOKED_AT:
                msgspec.structs.force_setattr(self, name, text[:LOOKED_AT])


def record_of_call(record: CallRecord) -> AuditRecord:
    """Return the audit record of a call; the caller is in its ``meta``."""
    return AuditRecord(
        at=record.started,
        action="tools/call",
        outcome=_OUTCOMES.get(record.outcome, "failed"),
        reason="" if record.outcome == "ok" else record.error_code or record.outcome,
        tenant=_text(record.meta.get("tenant")),
        subject=_text(record.meta.get("subject")),
        target=record.tool,
        duration=record.duration,
        arguments_size=record.arguments_size,
        result_size=record.result_size,
    )


_OUTCOMES: dict[str, AuditOutcome] = {"ok": "done", "refused": "refused"}


def without_secrets(record: AuditRecord) -> dict[str, Any]:
    """Return a record as JSON, with everything that looks like a secret redacted, and texts cut."""
    found: dict[str, Any] = msgspec.to_builtins(record)
    for name in found.keys() & set(_TEXTS):
        text = redacted(found[name], is_name=name in _NAMES)
        found[name] = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
    return found


@lru_cache(maxsize=10_000)
def redacted(text: str, *, is_name: bool) -> str:
    """Return a text in which nothing looks like a secret, and each character can be printed."""
    # Not every store holds every character.
    text = "".join(it if it.isprintable() else "?" for it in text)
    text = _OWN_KEY.sub(r"\1_***", text)
    if is_name:
        # In names only certain tokens are redacted: an issuer with a random path is not one.
        return "***" if looks_like_token(text) else text
    for suspect in sorted({it.value for it in secrets_in(text)}, key=len, reverse=True):
        text = text.replace(suspect, "***")
    return text


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


logger: logging.Logger = logging.getLogger("pegboard.observe")

AUDIT = "audit"
"""The namespace of a store in which the audit is kept."""
MOST_PENDING = 10_000
"""How many records may wait to be written; of later ones only the number is written."""
MOST_TARGETS = 10
"""How many refusals of one caller keep their targets between two writes; the rest become one.

A refused caller chooses its targets, and must not fill the audit with them.
"""
REFUSED = "-refused"
"""The end of the key of a refusal, by which refusals are counted without reading them."""


class Audit:
    """Records actions and returns at once; writes in the background, every two seconds.

    Equal refusals become one record with a count, so that a flood is one line. Texts that look
    like secrets are redacted. It is also an observer: passed to a registry, it records every call.

    Args:
        store: the operator's store, which keeps the last records of all processes that use it.
        path: a file to which every record is appended as a line of JSON; only its owner may read
            it. It is opened for each write, so it can be moved away at any time.
        keep: how many records of done or failed actions the store keeps. It keeps half as many
            refusals besides, so that no number of refusals pushes out the other records.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        keep: int = 10_000,
    ) -> None:
        if keep < 1:
            raise ValueError(f"`keep` is how many records are kept, at least 1, not {keep}.")
        self._kept = None if store is None else _InStore(store, keep)
        writers = [self._kept, None if path is None else _InFile(Path(path))]
        self._backlogs = [_Backlog(it) for it in writers if it is not None]
        self._flushing = WriteBehind(self.flush, owner="audit")
        self._noting = GuardedLock("audit", threading.Lock())
        self._writing = GuardedLock("audit", threading.Lock())
        self._source = secrets.token_hex(4)
        self._pending: dict[tuple[object, ...], AuditRecord] = {}
        self._targets: Counter[tuple[object, ...]] = Counter()
        self._lost = 0
        self._numbers = count()

    def note(
        self,
        action: str,
        outcome: AuditOutcome,
        *,
        principal: Principal | None = None,
        reason: str = "",
        target: str = "",
        source: str = "",
    ) -> None:
        """Record one action."""
        self.add(
            AuditRecord(
                at=time.time(),
                action=action,
                outcome=outcome,
                reason=reason,
                tenant="" if principal is None else principal.tenant,
                subject="" if principal is None else principal.subject,
                target=target,
                source=source,
            )
        )

    def add(self, record: AuditRecord) -> None:
        """Add a whole record."""
        if not self._backlogs:
            return
        with self._noting:
            key: tuple[object, ...] = (next(self._numbers),)
            if record.outcome == "refused":
                record = self._bounded(record)
                key = _alike(record)
            same = self._pending.get(key)
            if same is not None:
                more = same.count + record.count
                self._pending[key] = msgspec.structs.replace(same, count=more)
            elif len(self._pending) < _room_for(record):
                self._pending[key] = record
            else:
                self._lost += 1
        self._flushing.wake()

    def __call__(self, record: CallRecord, /) -> None:
        """Record a call, as an observer of a registry."""
        self.add(record_of_call(record))

    def records(self, limit: int = 100) -> list[AuditRecord]:
        """Return the last records in the store, the newest first.

        Raises:
            StorageError: when the store cannot be read or written.
        """
        self.flush()
        return [] if self._kept is None else self._kept.last(limit)

    def flush(self) -> None:
        """Write the pending records.

        Raises:
            OSError: when the file cannot be written; the records are kept for the next time.
            StorageError: when the store cannot be written; likewise.
        """
        with self._writing:
            records = self._take()
            failure: Exception | None = None
            for backlog in self._backlogs:
                try:
                    backlog.write(records)
                except Exception as error:  # noqa: BLE001 - the other one has to write all the same
                    failure = failure or error
            if failure is not None:
                raise failure

    def close(self) -> None:
        """Write the pending records and stop."""
        self._flushing.close()

    def _bounded(self, record: AuditRecord) -> AuditRecord:
        if not record.target or _alike(record) in self._pending:
            return record
        caller = record.tenant, record.subject, record.source
        self._targets[caller] += 1
        if self._targets[caller] <= MOST_TARGETS:
            return record
        return msgspec.structs.replace(record, target="")

    def _take(self) -> dict[str, AuditRecord]:
        """Return the pending records by their keys in a store."""
        with self._noting:
            records, self._pending = list(self._pending.values()), {}
            lost, self._lost = self._lost, 0
            self._targets.clear()
        if lost:
            records.append(
                AuditRecord(
                    at=time.time(), action="audit", outcome="failed", reason="lost", count=lost
                )
            )
        return {self._key(it): it for it in records}

    def _key(self, record: AuditRecord) -> str:
        # Ordered by time, and different for actions of the same moment in different processes.
        key = f"{record.at:017.6f}-{self._source}-{next(self._numbers):09d}"
        return f"{key}{REFUSED}" if record.outcome == "refused" else key


class _Writer(Protocol):
    def write(self, records: Mapping[str, AuditRecord]) -> None: ...


class _Backlog:
    """The records that one writer has not written yet; if it fails, the other is not delayed."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer
        # Under the same keys each time: a store that went away may have kept them.
        self._waiting: dict[str, AuditRecord] = {}
        self._dropped = 0

    def write(self, records: Mapping[str, AuditRecord]) -> None:
        self._waiting.update(records)
        # Bounded: a disk that is full for hours must not fill the memory as well.
        refusals_first = sorted(self._waiting, key=lambda it: not it.endswith(REFUSED))
        self._drop(refusals_first[: -2 * MOST_PENDING])
        if self._waiting:
            self._writer.write(self._waiting)
            self._waiting.clear()
        if self._dropped:
            words = "audit_dropped: the audit is written again, without %d records"
            logger.error(words, self._dropped, extra={"records": self._dropped})
            self._dropped = 0

    def _drop(self, oldest: list[str]) -> None:
        for key in oldest:
            del self._waiting[key]
        if oldest and not self._dropped:
            # Logged once; the final number is logged when the audit can be written again.
            words = (
                "audit_dropped: the audit cannot be written; %d records are lost, more may follow"
            )
            logger.error(words, len(oldest), extra={"records": len(oldest)})
        self._dropped += len(oldest)


def _with_iso_time(record: AuditRecord) -> dict[str, Any]:
    return {**without_secrets(record), "at": datetime.fromtimestamp(record.at, UTC)}


class _InFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, records: Mapping[str, AuditRecord]) -> None:
        lines = [msgspec.json.encode(_with_iso_time(it)) + b"\n" for it in records.values()]
        file = open_file_to_append(self._path)
        try:
            append_lines(file, b"".join(lines))
        finally:
            os.close(file)


class _InStore:
    def __init__(self, store: Store, keep: int) -> None:
        self._store = store
        self._values = store.namespace(AUDIT)
        self._keep = keep
        self._since_pruned = keep

    def write(self, records: Mapping[str, AuditRecord]) -> None:
        self._values.put_many({key: without_secrets(it) for key, it in records.items()})
        self._since_pruned += len(records)
        if self._since_pruned > self._keep // 10:
            # The records are written; a failure here must not write them again.
            with suppress(StorageError):
                self._prune()

    def last(self, limit: int) -> list[AuditRecord]:
        newest_first = sorted(self._values.items().items(), reverse=True)[:limit]
        found: list[AuditRecord] = []
        for _, it in newest_first:
            # A value of another program, or a damaged one, is not a record.
            with suppress(msgspec.ValidationError):
                found.append(msgspec.convert(it.value, AuditRecord))
        return found

    def _prune(self) -> None:
        with self._store.elected("prune-audit") as mine:
            if mine:
                keys = self._values.keys()
                refused = [it for it in keys if it.endswith(REFUSED)]
                others = [it for it in keys if not it.endswith(REFUSED)]
                old = [*refused[: -max(1, self._keep // 2)], *others[: -self._keep]]
                if old:
                    self._values.delete(old)
        self._since_pruned = 0


def _alike(record: AuditRecord) -> tuple[object, ...]:
    return (
        record.action,
        record.reason,
        record.tenant,
        record.subject,
        record.target,
        record.source,
    )


def _room_for(record: AuditRecord) -> int:
    # However many actions are refused at once, there is room for the others.
    return MOST_PENDING // 2 if record.outcome == "refused" else MOST_PENDING
