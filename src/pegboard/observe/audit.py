"""Audit: who did what, kept in a store, in a file, or in both."""

import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import msgspec

from pegboard.errors import StorageError
from pegboard.model import CallRecord, Principal
from pegboard.model.forks import start_anew_in_children
from pegboard.observe.audit_record import (
    AuditOutcome,
    AuditRecord,
    record_of_call,
    without_secrets,
)
from pegboard.storage import Store
from pegboard.storage.flushing import Flushing

__all__ = ["AUDIT", "Audit"]

AUDIT = "audit"
"""The namespace of a store in which the audit is kept."""
MOST_PENDING = 10_000
"""So many records wait to be written; what comes then is counted, and the count is written."""


class Audit:
    """Notes what happened and returns at once; writes in the background, every two seconds.

    Refusals that are alike become one record with a count, so that a flood is one line. Texts that
    look like secrets are hidden. It is also an observer: given to a registry, it notes every call.

    Args:
        store: where the last records are kept, of all processes that use it; the operator's.
        path: a file to which every record is appended as a line of JSON, for its owner to read. It
            is opened for each write, so that it can be moved away at any time.
        keep: how many records the store keeps.
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
        self._flushing = Flushing(self.flush)
        self.after_fork()
        start_anew_in_children(self)

    def after_fork(self) -> None:
        """Start from nothing: what happened before is the parent's to write down."""
        self._noting = threading.Lock()
        self._writing = threading.Lock()
        self._pending: dict[tuple[object, ...], AuditRecord] = {}
        self._lost = 0
        self._numbers = count()
        for backlog in self._backlogs:
            backlog.records.clear()

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
        """Note one act."""
        self._add(
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

    def __call__(self, record: CallRecord, /) -> None:
        """Note a call, as an observer of a registry."""
        self._add(record_of_call(record))

    def records(self, limit: int = 100) -> list[AuditRecord]:
        """Return the last records that the store keeps, the newest first.

        Raises:
            StorageError: when the store cannot be read or written.
        """
        self.flush()
        return [] if self._kept is None else self._kept.last(limit)

    def flush(self) -> None:
        """Write down what was noted.

        Raises:
            OSError: when the file cannot be written; it is kept for the next time.
            StorageError: the same, of the store.
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
        """Write down the rest and stop."""
        self._flushing.close()

    def _add(self, record: AuditRecord) -> None:
        if not self._backlogs:
            return
        with self._noting:
            key = _alike(record) if record.outcome == "refused" else (next(self._numbers),)
            same = self._pending.get(key)
            if same is not None:
                more = same.count + record.count
                self._pending[key] = msgspec.structs.replace(same, count=more)
            elif len(self._pending) < MOST_PENDING:
                self._pending[key] = record
            else:
                self._lost += 1
        self._flushing.wake()

    def _take(self) -> list[AuditRecord]:
        with self._noting:
            records, self._pending = list(self._pending.values()), {}
            lost, self._lost = self._lost, 0
        if lost:
            records.append(
                AuditRecord(
                    at=time.time(), action="audit", outcome="failed", reason="lost", count=lost
                )
            )
        return records


class _Writer(Protocol):
    def write(self, records: Sequence[AuditRecord]) -> None: ...


class _Backlog:
    """What one writer has not written yet; one that fails does not hold up the other."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer
        # Bounded: a disk that is full for hours must not fill the memory as well.
        self.records: deque[AuditRecord] = deque(maxlen=2 * MOST_PENDING)

    def write(self, records: Sequence[AuditRecord]) -> None:
        self.records.extend(records)
        if self.records:
            self._writer.write(list(self.records))
            self.records.clear()


class _InFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, records: Sequence[AuditRecord]) -> None:
        lines = b"".join(msgspec.json.encode(without_secrets(it)) + b"\n" for it in records)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        file = os.open(self._path, flags, 0o600)
        try:
            while lines:
                lines = lines[os.write(file, lines) :]
        finally:
            os.close(file)


class _InStore:
    def __init__(self, store: Store, keep: int) -> None:
        self._store = store
        self._values = store.namespace(AUDIT)
        self._keep = keep
        self._source = secrets.token_hex(4)
        self._numbers = count()
        self._since_pruned = keep

    def write(self, records: Sequence[AuditRecord]) -> None:
        # By time, and different for acts of the same moment in different processes.
        keyed: dict[str, Any] = {
            f"{it.at:017.6f}-{self._source}-{next(self._numbers):09d}": without_secrets(it)
            for it in records
        }
        self._values.put_many(keyed)
        self._since_pruned += len(records)
        if self._since_pruned > self._keep // 10:
            # What is written is written: it must not be written again because of this.
            with suppress(StorageError):
                self._prune()

    def last(self, limit: int) -> list[AuditRecord]:
        newest_first = sorted(self._values.items().items(), reverse=True)[:limit]
        found: list[AuditRecord] = []
        for _, it in newest_first:
            # What somebody else left there, or damaged, is no act.
            with suppress(msgspec.ValidationError):
                found.append(msgspec.convert(it.value, AuditRecord))
        return found

    def _prune(self) -> None:
        with self._store.elected("prune-audit") as mine:
            if mine:
                old = self._values.keys()[: -self._keep]
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
