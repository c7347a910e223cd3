"""Import of RegistryTools's data files: read one as it is, and take its tools over."""

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import msgspec

from pegboard.errors import StorageError
from pegboard.model import Tool, Usage
from pegboard.storage import registrytools
from pegboard.storage.encoding import decode_tool, encode_tool
from pegboard.storage.json_file.format import ShapeError, read_entry
from pegboard.storage.json_file.paths import Signature, signature_of
from pegboard.storage.registrytools import (
    Entry,
    PegboardFileError,
    entry_in_row,
    is_store,
    refuse_store,
)
from pegboard.storage.sqlite.file import SIDE_FILES, SqliteFile
from pegboard.storage.store import OnProgress, Store, Use

__all__ = ["ImportedTools", "RegistryToolsData", "read_data", "take_over"]

_DATABASE = b"SQLite format 3\0"
_LOGGED = b"\2\2"
"""At this place of a database: it has a write-ahead log."""
_LOGGED_AT = slice(18, 20)
_ATTEMPTS = 5
_MOST_USES = 2**62
"""A count that large is damage, and would soon not fit into a database."""


class RegistryToolsData(msgspec.Struct, frozen=True, kw_only=True):
    """What a data file of RegistryTools holds."""

    tools: dict[str, Tool]
    usage: dict[str, Usage]
    skipped: dict[str, str]
    """What Pegboard cannot store, by name, and why."""


class ImportedTools(msgspec.Struct, frozen=True, kw_only=True):
    """What a store took over."""

    tools: int
    used: int
    """Tools whose usage was not known here."""
    present: int
    """Tools that were there already, exactly so."""
    differing: list[str]
    """Tools that are there with another definition, and were kept."""


def read_data(content: bytes, path: Path) -> RegistryToolsData | None:
    """Return the tools in a data file of RegistryTools; ``None`` if the file is another one.

    Args:
        content: of the file; a database is read again by SQLite, which finds its newest changes.
        path: where it is. RegistryTools may have it open. It is not changed.

    Raises:
        StorageError: when a database cannot be read, or the file is one that people mix up with it.
    """
    try:
        if content.startswith(_DATABASE):
            is_logged = content[_LOGGED_AT] == _LOGGED
            return _data(((row["name"], row) for row in _rows_in(path, is_logged)), entry_in_row)
        entries = _entries_in(content)
        return None if entries is None else _data(entries, _entry_in)
    except PegboardFileError:
        raise StorageError(
            f"{path} is a store of Pegboard, not an export. Copy it with `pegboard store migrate "
            f"URL --store {path}`.",
            url=str(path),
        ) from None
    except sqlite3.Error as error:
        raise StorageError(
            f"{path} cannot be read: {error}. Nothing was changed. Stop RegistryTools and try "
            "again, or restore the file from a backup.",
            url=str(path),
        ) from error
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.", url=str(path)) from error


def take_over(
    data: RegistryToolsData,
    store: Store,
    *,
    replaces: bool = False,
    on_progress: OnProgress | None = None,
) -> ImportedTools:
    """Save tools and usage in a store that may be in use; a second time, nothing changes.

    Args:
        data: the tools.
        store: where to.
        replaces: whether they replace tools of the same name with another definition.
        on_progress: is told how many tools are written.

    Raises:
        RevisionConflictError: when another program registers one of the tools at this moment.
        StorageError: when the store cannot be read or written.
    """
    there = store.load(data.tools)
    new = [tool for name, tool in data.tools.items() if name not in there]
    differing = [name for name, it in there.items() if it.tool != data.tools[name]]
    if new:
        store.save_many(new, expected=None, on_progress=on_progress)
    if differing and replaces:
        store.save_many([data.tools[name] for name in differing], on_progress=on_progress)
    return ImportedTools(
        tools=len(new) + (len(differing) if replaces else 0),
        used=_add_usage(data.usage, store),
        present=len(there) - len(differing),
        differing=[] if replaces else differing,
    )


def _rows_in(path: Path, is_logged: bool) -> list[sqlite3.Row]:  # noqa: FBT001 - private
    """Return the rows as the last transaction left them, and change nothing."""
    if not path.exists():
        raise StorageError("A database has to be a file: name it.", url=str(path))
    file = SqliteFile(path, url=str(path))
    if not is_logged or _may_be_joined(file):
        # A reader that may not write does not remove the empty log that it has made.
        tidies = is_logged and not any(signature_of(file.beside(it)) for it in SIDE_FILES)
        try:
            return _rows(file.path, path, "rw" if tidies else "ro")
        except sqlite3.OperationalError as error:
            # A writer died, and its changes have to be rolled back: not in this file.
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
    with tempfile.TemporaryDirectory() as folder:
        return _rows(_copied(file, Path(folder)), path, "rw")


def _may_be_joined(file: SqliteFile) -> bool:
    """Tell whether this user may make or use the files that readers of a log share."""
    return os.access(file.path, os.W_OK) and os.access(file.path.parent, os.W_OK)


def _copied(file: SqliteFile, folder: Path) -> Path:
    """Copy a database that no process writes to, with the files beside it."""
    parts = [file.path, *(file.beside(it) for it in ("-wal", "-journal"))]
    for _ in range(_ATTEMPTS):
        before = [signature_of(it) for it in parts]
        for part, signature in zip(parts, before, strict=True):
            _copy(part, signature, folder / part.name)
        if [signature_of(it) for it in parts] == before:
            return folder / file.path.name
    raise StorageError(
        f"{file.url} is written to all the time, so it cannot be copied. Stop RegistryTools and "
        "try again.",
        url=file.url,
    )


def _copy(part: Path, signature: Signature, target: Path) -> None:
    target.unlink(missing_ok=True)
    if signature is not None:
        try:
            shutil.copyfile(part, target)
        except FileNotFoundError:
            # Another process has removed it: the next attempt knows.
            return


def _rows(database: Path, path: Path, mode: str) -> list[sqlite3.Row]:
    patience = registrytools.PATIENCE
    address = f"{database.as_uri()}?mode={mode}"
    with closing(
        sqlite3.connect(address, uri=True, timeout=patience, isolation_level=None)
    ) as connection:
        connection.row_factory = sqlite3.Row
        # Text that is not UTF-8 costs only its tool.
        connection.text_factory = _decoded
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        refuse_store(connection)
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'tools'"
        is_table = connection.execute(query).fetchone() is not None
        columns = {row["name"] for row in connection.execute("PRAGMA table_info(tools)")}
        if not is_table or not {"name", "description"} <= columns:
            raise StorageError(
                f"{path} is a database, but has no tools of RegistryTools. Name its `tools.db`.",
                url=str(path),
            )
        return connection.execute("SELECT * FROM tools").fetchall()


def _decoded(text: bytes) -> str:
    return text.decode(errors="surrogateescape")


def _entries_in(content: bytes) -> list[tuple[object, Any]] | None:
    """Return names and tools in a JSON document; ``None`` if there is anything else in it."""
    try:
        found: Any = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if is_store(found):
        raise PegboardFileError
    entries: list[tuple[object, Any]] = []
    if isinstance(found, dict):
        for name, it in cast("dict[str, Any]", found).items():
            fields = cast("Entry | None", it if isinstance(it, dict) else None)
            entries.append((name, cast("Any", it) if fields is None else {"name": name, **fields}))
    elif isinstance(found, list):
        for number, it in enumerate(cast("list[Any]", found), 1):
            fields = cast("Entry", it if isinstance(it, dict) else {})
            entries.append((fields.get("name", f"entry {number}"), cast("Any", it)))
    else:
        return None
    has_tools = any(isinstance(it, dict) and "description" in it for _, it in entries)
    return entries if has_tools or found == {} else None


def _entry_in(entry: Any) -> Entry:
    if not isinstance(entry, dict):
        raise TypeError("It is not a JSON object.")
    return cast("Entry", entry)


def _data(found: Iterable[tuple[object, Any]], read: Callable[[Any], Entry]) -> RegistryToolsData:
    tools: dict[str, Tool] = {}
    usage: dict[str, Usage] = {}
    skipped: dict[str, str] = {}
    for called, it in found:
        name = str(called)
        try:
            entry = read(it)
            # The order of tags is another one each time that RegistryTools writes.
            text = msgspec.json.encode(entry | {"tags": sorted(entry.get("tags") or [])})
            definition, _, used = read_entry(name, text, local=True)
            tool = decode_tool(definition)
            # Decodes the schemas, too.
            encode_tool(tool)
        except ShapeError as error:
            skipped[name] = error.problem
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            skipped[name] = str(error)
        else:
            if used is not None and used.use_frequency >= _MOST_USES:
                skipped[name] = f"Its `use_frequency` is too large: {used.use_frequency}."
                continue
            tools[name] = tool
            if used is not None:
                usage[name] = used
    return RegistryToolsData(tools=tools, usage=usage, skipped=skipped)


def _add_usage(usage: Mapping[str, Usage], store: Store) -> int:
    """Bring the counts of a store up to these; it may be counting at the same time."""
    there = store.usage(usage)
    sums: dict[str, Usage] = {}
    uses: dict[str, Use] = {}
    for name, theirs in usage.items():
        ours = there.get(name, Usage())
        missing = max(theirs.use_frequency - ours.use_frequency, 0)
        moments = [it.last_used for it in (theirs, ours) if it.last_used is not None]
        latest = max(moments, default=None)
        if not missing and latest == ours.last_used:
            continue
        if latest is None:
            sums[name] = theirs
        else:
            uses[name] = Use(missing, latest)
    if sums:
        store.set_usage(sums)
    if uses:
        store.add_usage(uses)
    return len(sums) + len(uses)
