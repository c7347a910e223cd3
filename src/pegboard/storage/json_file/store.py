"""JsonStore: a store in a JSON file that people read, edit and compare."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

import msgspec

from pegboard.errors import RevisionConflictError
from pegboard.model import FrozenDict, Tool, Usage, freeze
from pegboard.model.tool_names import check_name
from pegboard.storage.encoding import (
    check_key,
    decode_tool,
    encode_extras,
    encode_tool,
)
from pegboard.storage.json_file.changes import Change, Counted, Removed, Saved
from pegboard.storage.json_file.content import JsonContent, revision_of
from pegboard.storage.json_file.entries import USAGE_FIELDS
from pegboard.storage.json_file.files import JsonFiles
from pegboard.storage.json_file.paths import paths_of
from pegboard.storage.json_file.values import JsonValues
from pegboard.storage.leases import LEASES, lease
from pegboard.storage.open_store import DEFAULT_TENANT, path_of, without_password
from pegboard.storage.store import ANY, OnProgress, Revision, StoreChange, StoredTool, Use
from pegboard.storage.usage_counts import checked_usage, checked_uses, sum_of_usage
from pegboard.storage.watchers import Watchers

__all__ = ["JsonStore", "open_url"]

STEP = 500
_NO_EXTRAS = FrozenDict()

Texts = dict[str, tuple[bytes, bytes | None]]
"""By name, a definition, and unknown fields where they are to be replaced."""


def open_url(url: str, tenant: str) -> "JsonStore":
    """Open the file that a URL or a path names, for one tenant.

    Raises:
        StorageError: when it cannot be opened; then nothing was changed.
    """
    return JsonStore(path_of(url), url=without_password(url), tenant=tenant)


class JsonStore:
    """Everything of one tenant in a JSON file; see `Store` for what each method does."""

    def __init__(self, path: Path, *, url: str, tenant: str) -> None:
        self._url = url
        self._tenant = tenant
        named = None if tenant == DEFAULT_TENANT else tenant
        self._files = JsonFiles(paths_of(path, named), named)
        self._watchers = Watchers(self._files.look)

    @property
    def url(self) -> str:
        """Where it is."""
        return self._url

    @property
    def tenant(self) -> str:
        """Whose data it is."""
        return self._tenant

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
            decoded, content.decoded = content.decoded, {}
            return [_stored(content, name, decoded.get(name)) for name in names]

        return self._files.read(reading)

    def load(self, names: Iterable[str]) -> dict[str, StoredTool]:
        """Return the tools of these names; those that there are not are simply missing."""
        wanted = [check_name(name) for name in names]
        return self._files.read(
            lambda content: {
                name: _stored(content, name) for name in wanted if name in content.tools
            }
        )

    def save(self, tool: Tool | StoredTool, *, expected: Revision = ANY) -> int:
        """Keep a tool and return its revision."""
        name, text = _entry(tool)
        return self._files.write(self._saving({name: text}, expected), only_tools=True)[name]

    def save_many(
        self,
        tools: Iterable[Tool | StoredTool],
        *,
        expected: Revision = ANY,
        on_progress: OnProgress | None = None,
    ) -> dict[str, int]:
        """Keep many tools, all or none, and return their revisions by name."""
        given = list(tools)
        texts: Texts = {}
        for number, tool in enumerate(given):
            if on_progress is not None and number and number % STEP == 0:
                on_progress(number, len(given))
            name, text = _entry(tool)
            texts[name] = text
        if on_progress is not None:
            # Before: whoever raises there wants nothing to be kept.
            on_progress(len(given), len(given))
        return self._files.write(self._saving(texts, expected), only_tools=True)

    def delete(self, name: str, *, expected: Revision = ANY) -> bool:
        """Forget a tool and its usage, and tell whether there was one."""
        check_name(name)

        def plan(content: JsonContent) -> tuple[list[Change], bool]:
            found = content.revision(name)
            self.compare(name, found, expected)
            used = content.uses.get(name)
            changes: list[Change] = []
            if used is not None:
                changes.append(Counted(name, used, None))
            if found is not None:
                changes.append(Removed(name, found))
            return changes, found is not None

        return self._files.write(plan)

    def add_usage(self, uses: Mapping[str, Use]) -> None:
        """Add to the counts of these tools, whether or not they are stored here."""
        given = checked_uses(uses)

        def added(content: JsonContent) -> Generator[tuple[str, Usage]]:
            for name, more in given.items():
                yield name, sum_of_usage(content.uses.get(name, Usage()), more)

        self._count(added)

    def set_usage(self, usage: Mapping[str, Usage]) -> None:
        """Replace the counts of these tools."""
        given = checked_usage(usage)
        self._count(lambda _: given.items())

    def usage(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the counts of these tools, or of all that were ever used."""
        if names is None:
            return self._files.read(lambda content: dict(content.uses))
        wanted = [check_name(name) for name in names]
        return self._files.read(
            lambda content: {name: content.uses[name] for name in wanted if name in content.uses}
        )

    def namespace(self, name: str) -> JsonValues:
        """Return the values of one room."""
        return JsonValues(self._files, check_key("namespace", name), compare=self.compare)

    def namespaces(self) -> list[str]:
        """Return the rooms that have values, in order."""
        return self._files.read(lambda content: sorted(content.values))

    def watch(self, watcher: Callable[[StoreChange], object]) -> Callable[[], None]:
        """Tell a watcher, in a thread of the store, what changed; call the result to stop."""
        return self._watchers.add(watcher, before_first=self._files.start_looking)

    def elected(self, job: str) -> AbstractContextManager[bool]:
        """Return a context that is True for one process at a time: the one to do the job."""
        return lease(self.namespace(LEASES), check_key("job", job))

    def check(self) -> None:
        """Read everything there is."""
        self._files.check()

    def close(self) -> None:
        """Leave the file whole, without a journal, and let go of it."""
        self._watchers.close()
        self._files.close()

    def compare(self, key: str, found: int | None, expected: Revision) -> None:
        """Refuse to write where something else than expected is."""
        if expected is not ANY and expected != found:
            raise RevisionConflictError(key, url=self._url, expected=expected, found=found)

    def _saving(
        self, texts: Texts, expected: Revision
    ) -> Callable[[JsonContent], tuple[list[Change], dict[str, int]]]:
        def plan(content: JsonContent) -> tuple[list[Change], dict[str, int]]:
            changes: list[Change] = []
            revisions: dict[str, int] = {}
            for name, (definition, extras) in texts.items():
                found = content.revision(name)
                if expected is not ANY:
                    self.compare(name, found, expected)
                text = _joined(definition, content.extras_of(name) if extras is None else extras)
                revisions[name] = revision_of(text)
                changes.append(Saved(name, found, msgspec.Raw(text)))
            return changes, revisions

        return plan

    def _count(self, counts: Callable[[JsonContent], Iterable[tuple[str, Usage]]]) -> None:
        def plan(content: JsonContent) -> tuple[list[Change], None]:
            changes: list[Change] = []
            for name, usage in counts(content):
                before = content.uses.get(name)
                after = None if usage == Usage() else usage
                if after != before:
                    changes.append(Counted(name, before, after))
            return changes, None

        self._files.write(plan)


def _stored(content: JsonContent, name: str, decoded: Tool | None = None) -> StoredTool:
    text = content.tools[name]
    extras = content.extras_of(name)
    return StoredTool(
        tool=decoded or decode_tool(text),
        revision=revision_of(text),
        extras=_NO_EXTRAS if extras is None else freeze(msgspec.json.decode(extras)),
    )


def _entry(tool: object) -> tuple[str, tuple[bytes, bytes | None]]:
    if isinstance(tool, StoredTool):
        extras = {name: it for name, it in tool.extras.items() if name not in USAGE_FIELDS}
        return _name_and_text(tool.tool, encode_extras(extras))
    if isinstance(tool, Tool):
        return _name_and_text(tool, None)
    raise TypeError(f"A store keeps tools, not {type(tool).__name__!r}.")


def _name_and_text(tool: Tool, extras: bytes | None) -> tuple[str, tuple[bytes, bytes | None]]:
    return check_name(tool.name), (encode_tool(tool), extras)


def _joined(definition: bytes, extras: bytes | None) -> bytes:
    if extras is None or extras == b"{}":
        return definition
    return definition[:-1] + b"," + extras[1:]
