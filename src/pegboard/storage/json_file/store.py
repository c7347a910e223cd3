"""JsonStore: a store in a JSON file that people read, edit and compare."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import msgspec

from pegboard.model import Tool, Usage
from pegboard.model.tool_names import check_name
from pegboard.storage.buckets import BUCKETS, fill
from pegboard.storage.encoding import check_key, encode_named_value, read_row, row_of
from pegboard.storage.json_file.content import JsonContent, revision_of
from pegboard.storage.json_file.format import unknown_fields
from pegboard.storage.json_file.journal import Change, Counted, Forgotten, Put, Removed, Saved
from pegboard.storage.json_file.paths import paths_of
from pegboard.storage.json_file.transactions import JsonTransactions
from pegboard.storage.leases import LEASES, lease
from pegboard.storage.open_store import DEFAULT_TENANT, path_of, without_password
from pegboard.storage.store import (
    ANY,
    OnProgress,
    Revision,
    StoreChange,
    StoredTool,
    StoredValue,
    Use,
    check_revision,
)
from pegboard.storage.usage_counts import checked_usage, checked_uses, sum_of_usage
from pegboard.storage.watchers import Watchers

__all__ = ["JsonStore", "JsonValues", "open_url"]

STEP = 500
"""Tools between two reports of progress."""


def open_url(url: str, tenant: str) -> "JsonStore":
    """Open the file that a URL or a path names, for one tenant.

    Raises:
        StorageError: when it cannot be opened; then nothing was changed.
    """
    return JsonStore(path_of(url), url=without_password(url), tenant=tenant)


class JsonStore:
    """Everything of one tenant in a JSON file; see `Store` for what each method does."""

    def __init__(self, path: Path, *, url: str, tenant: str) -> None:
        self.url: str = url
        self.tenant: str = tenant
        named = None if tenant == DEFAULT_TENANT else tenant
        self._transactions = JsonTransactions(paths_of(path, named), named)
        self._watchers = Watchers(self._transactions.look)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load_all(self) -> list[StoredTool]:
        """Return all tools, the most used ones first, then in the order of the file."""

        def reading(content: JsonContent) -> list[StoredTool]:
            uses = content.uses
            names = list(content.tools)
            if uses:
                names.sort(key=lambda name: -uses[name].use_frequency if name in uses else 0)
            return [_stored(content, name) for name in names]

        return self._transactions.read(reading)

    def load(self, names: Iterable[str]) -> dict[str, StoredTool]:
        """Return the tools of these names; those that there are not are simply missing."""
        wanted = [check_name(name) for name in names]
        return self._transactions.read(
            lambda content: {it: _stored(content, it) for it in wanted if it in content.tools}
        )

    def save(self, tool: Tool | StoredTool, *, expected: Revision = ANY) -> int:
        """Keep a tool and return its revision."""
        [revision] = self.save_many([tool], expected=expected).values()
        return revision

    def save_many(
        self,
        tools: Iterable[Tool | StoredTool],
        *,
        expected: Revision = ANY,
        on_progress: OnProgress | None = None,
    ) -> dict[str, int]:
        """Keep many tools, all or none, and return their revisions by name."""
        given = list(tools)
        texts: dict[str, tuple[bytes, bytes | None]] = {}
        for number, tool in enumerate(given, 1):
            name, text, extras = row_of(tool)
            texts[check_name(name)] = text, extras
            # All before the write: a caller that raises there wants nothing to be kept.
            if on_progress is not None and (number % STEP == 0 or number == len(given)):
                on_progress(number, len(given))

        def plan(content: JsonContent) -> tuple[list[Change], dict[str, int]]:
            changes: list[Change] = []
            revisions: dict[str, int] = {}
            for name, (definition, extras) in texts.items():
                before = content.tools.get(name)
                found = None if before is None else revision_of(before)
                check_revision(name, url=self.url, expected=expected, found=found)
                text = _joined(definition, before, extras)
                revisions[name] = revision_of(text)
                changes.append(Saved(name, found, msgspec.Raw(text)))
            return changes, revisions

        return self._transactions.write(plan)

    def delete(self, name: str, *, expected: Revision = ANY) -> bool:
        """Forget a tool and its usage, and tell whether there was one."""
        check_name(name)

        def plan(content: JsonContent) -> tuple[list[Change], bool]:
            found, used = content.revision(name), content.uses.get(name)
            check_revision(name, url=self.url, expected=expected, found=found)
            changes: list[Change] = [] if used is None else [Counted(name, used, None)]
            if found is not None:
                changes.append(Removed(name, found))
            return changes, found is not None

        return self._transactions.write(plan)

    def add_usage(self, uses: Mapping[str, Use]) -> None:
        """Add to the counts of these tools, whether or not they are stored here."""
        given = checked_uses(uses)
        self._count(given, lambda name, before: sum_of_usage(before, given[name]))

    def set_usage(self, usage: Mapping[str, Usage]) -> None:
        """Replace the counts of these tools."""
        given = checked_usage(usage)
        self._count(given, lambda name, _: given[name])

    def usage(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the counts of these tools, or of all that were ever used."""
        if names is None:
            return self._transactions.read(lambda content: dict(content.uses))
        wanted = [check_name(name) for name in names]
        return self._transactions.read(
            lambda content: {it: content.uses[it] for it in wanted if it in content.uses}
        )

    def namespace(self, name: str) -> "JsonValues":
        """Return the values of one namespace."""
        return JsonValues(self._transactions, check_key("namespace", name), url=self.url)

    def namespaces(self) -> list[str]:
        """Return the namespaces that have values, in order."""
        return self._transactions.read(lambda content: sorted(content.values))

    def watch(self, watcher: Callable[[StoreChange], object]) -> Callable[[], None]:
        """Tell a watcher, in a thread of the store, what changed; call the result to stop."""
        return self._watchers.add(watcher, before_first=self._transactions.start_looking)

    def elected(self, job: str) -> AbstractContextManager[bool]:
        """Return a context that is True for one process at a time: the one to do the job."""
        return lease(self.namespace(LEASES), check_key("job", job))

    def fill_buckets(self, amounts: Mapping[str, float], *, most: float) -> dict[str, float]:
        """Add to leaky buckets, and return the level of each."""
        return fill(self.namespace(BUCKETS), amounts, most=most)

    def check(self) -> None:
        """Read everything there is."""
        self._transactions.check()

    def close(self) -> None:
        """Leave the file whole, without a journal, and close it."""
        self._watchers.close()
        self._transactions.close()

    def _count(self, names: Iterable[str], count: Callable[[str, Usage], Usage]) -> None:
        def plan(content: JsonContent) -> tuple[list[Change], None]:
            changes: list[Change] = []
            for name in names:
                before = content.uses.get(name)
                usage = count(name, before or Usage())
                after = None if usage == Usage() else usage
                if after != before:
                    changes.append(Counted(name, before, after))
            return changes, None

        self._transactions.write(plan)


class JsonValues:
    """JSON values by key in one namespace; see `KeyValues` for what each method does."""

    def __init__(self, transactions: JsonTransactions, namespace: str, *, url: str) -> None:
        self._transactions = transactions
        self._namespace = namespace
        self._url = url

    def get(self, key: str) -> StoredValue | None:
        """Return a value, or ``None`` when there is none."""
        text = self.text(key)
        return None if text is None else _stored_value(text)

    def text(self, key: str) -> bytes | None:
        """Return a value as JSON, or ``None`` when there is none."""
        check_key("key", key)
        return self._transactions.read(lambda content: self._values(content).get(key))

    def items(self) -> Mapping[str, StoredValue]:
        """Return everything, in the order of the keys."""
        found = self._transactions.read(lambda content: sorted(self._values(content).items()))
        return {key: _stored_value(text) for key, text in found}

    def keys(self) -> list[str]:
        """Return the keys alone, in order."""
        return self._transactions.read(lambda content: sorted(self._values(content)))

    def put(self, key: str, value: Any, *, expected: Revision = ANY) -> int:
        """Keep a value and return its revision."""
        [revision] = self._put({key: value}, expected)
        return revision

    def put_many(self, values: Mapping[str, Any]) -> None:
        """Keep many values, all or none."""
        self._put(values, ANY)

    def delete(self, keys: Iterable[str]) -> int:
        """Forget values, and return how many there were."""
        unwanted = {check_key("key", key): None for key in keys}

        def plan(content: JsonContent) -> tuple[list[Change], int]:
            values = self._values(content)
            gone = {key: revision_of(values[key]) for key in unwanted if key in values}
            return [Forgotten(self._namespace, key, it) for key, it in gone.items()], len(gone)

        return self._transactions.write(plan)

    def _put(self, values: Mapping[str, Any], expected: Revision) -> list[int]:
        texts = {key: encode_named_value(key, value) for key, value in values.items()}

        def plan(content: JsonContent) -> tuple[list[Change], list[int]]:
            changes: list[Change] = []
            for key, text in texts.items():
                found = content.value_revision(self._namespace, key)
                check_revision(key, url=self._url, expected=expected, found=found)
                changes.append(Put(self._namespace, key, found, msgspec.Raw(text)))
            return changes, [revision_of(text) for text in texts.values()]

        return self._transactions.write(plan)

    def _values(self, content: JsonContent) -> dict[str, bytes]:
        return content.values.get(self._namespace, {})


def _stored(content: JsonContent, name: str) -> StoredTool:
    text = content.tools[name]
    tool = content.decoded.pop(name, None)
    if tool is not None:
        return StoredTool(tool=tool, revision=revision_of(text))
    return read_row(text, revision_of(text), msgspec.json.encode(unknown_fields(text)))


def _joined(definition: bytes, before: bytes | None, extras: bytes | None) -> bytes:
    if extras is None and before is not None:
        extras = msgspec.json.encode(unknown_fields(before))
    return definition if extras in (None, b"{}") else definition[:-1] + b"," + extras[1:]


def _stored_value(text: bytes) -> StoredValue:
    return StoredValue(value=msgspec.json.decode(text), revision=revision_of(text))
