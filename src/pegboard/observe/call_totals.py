"""CallTotals: how often each tool was called on each day, also after the calls are forgotten."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import date
from pathlib import Path

import msgspec

from pegboard.config.atomic_write import make_folder, remove_leftovers, replace_file
from pegboard.observe.call_entry import CallEntry
from pegboard.observe.usage_totals import KEPT_DAYS, ToolTotal
from pegboard.storage.file_lock import LockedFile

__all__ = ["CallTotals"]

MOST_NOT_STARTED = 200
"""The most names in the totals of a tenant and day that no call has started; the rest is one.

A caller that is refused chooses the names, and must not fill the disk with them.
"""

Days = dict[str, dict[str, dict[str, ToolTotal]]]
"""The totals by day, tenant and tool."""
ReadFile = Callable[[Path], Iterable[CallEntry]]


class _Content(msgspec.Struct):
    days: Days = {}
    folded: list[str] = []
    """Files whose calls are in the totals, and which may not have been removed yet."""


class _NotStarted:
    """Counts the names in totals that no call has started; it looks through each of them once."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def room_in(self, totals: dict[str, ToolTotal]) -> bool:
        """Tell whether there is room for one more, which is counted."""
        number = self._numbers.get(id(totals))
        if number is None:
            number = sum(it.unreached >= it.calls for it in totals.values())
        self._numbers[id(totals)] = number + 1
        return number < MOST_NOT_STARTED


class CallTotals:
    """The totals of a folder of calls; every call counts exactly once.

    The totals and the names of the files that are in them are written together, before the files
    are removed. So a process that is killed half way does no harm.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "totals.json"
        self._lock = folder / "lock"

    def add_and_remove(self, files: Iterable[Path], read: ReadFile) -> None:
        """Add the calls of files to the totals, and remove the files.

        Raises:
            OSError: when that is not possible; then it is done the next time.
        """
        make_folder(self._path.parent)
        remove_leftovers(self._path.parent, self._path.name)
        lock = LockedFile(self._lock)
        try:
            with lock.locked(alone=True):
                self._add_and_remove(list(files), read)
        finally:
            lock.close()

    def folded(self) -> frozenset[str]:
        """Return the names of the files whose calls are in the totals."""
        return frozenset(self._content().folded)

    def of(
        self, tenant: str, first: date, others: Callable[[frozenset[str]], Iterable[CallEntry]]
    ) -> dict[str, ToolTotal]:
        """Return the totals of a tenant by tool, since a day, with the calls that are still there.

        Args:
            tenant: the tenant.
            first: the day, in UTC.
            others: returns the calls of all files but the named ones.

        Raises:
            OSError: when the files cannot be read.
        """
        while True:
            content = self._content()
            found: dict[str, ToolTotal] = {}
            for day, tenants in content.days.items():
                if day >= first.isoformat():
                    for tool, total in tenants.get(tenant, {}).items():
                        found.setdefault(tool, ToolTotal()).add_total(total)
            for call in others(frozenset(content.folded)):
                if call.tenant == tenant and call.started.date() >= first:
                    _add(found, call, tool=call.tool)
            # Otherwise a file may have been removed between the two.
            if self._content().folded == content.folded:
                return found

    def _add_and_remove(self, files: list[Path], read: ReadFile) -> None:
        content = self._content()
        not_started = _NotStarted()
        for path in files:
            if path.name in content.folded:
                continue
            for call in read(path):
                tenants = content.days.setdefault(call.started.date().isoformat(), {})
                totals = tenants.setdefault(call.tenant, {})
                is_named = call.tool in totals or call.attempts > 0 or not_started.room_in(totals)
                _add(totals, call, tool=call.tool if is_named else "")
            content.folded.append(path.name)
        for day in sorted(content.days)[:-KEPT_DAYS]:
            del content.days[day]
        self._write(content)
        for name in content.folded:
            with suppress(FileNotFoundError):
                os.unlink(self._path.parent / name)  # noqa: PTH108 - beside the other file
        content.folded.clear()
        self._write(content)

    def _content(self) -> _Content:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return _Content()
        except msgspec.DecodeError as error:
            words = f"{self._path} cannot be read: {error}. Correct it, or delete it."
            raise OSError(words) from error

    def _write(self, content: _Content) -> None:
        replace_file(self._path, msgspec.json.encode(content))


def _add(totals: dict[str, ToolTotal], call: CallEntry, *, tool: str) -> None:
    totals.setdefault(tool, ToolTotal()).add_calls(
        call.outcome if call.error_code is None else call.error_code,
        call.seconds,
        is_ok=not call.failed,
        reached=call.attempts > 0,
        last=call.started.timestamp(),
        count=call.count,
    )
