"""Connect a client to Pegboard: write our entry into its file, and undo that byte for byte."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from platformdirs import user_state_path

from pegboard.clients.client_file import entries_of, text_of, with_entries, without_entries
from pegboard.clients.identity import KnownServers, identity_of
from pegboard.clients.import_plan import read_found
from pegboard.clients.import_record import ImportRecord
from pegboard.clients.known_clients import ClientApp, Machine
from pegboard.clients.our_entry import is_pegboard
from pegboard.clients.own_entries import (
    found_by_label,
    own_entries,
    with_own_entries,
    without_own_entries,
)
from pegboard.config.atomic_write import read_file, remove_leftovers, sync_folder, write_file
from pegboard.config.servers import ServerConfig
from pegboard.errors import ConfigError

__all__ = [
    "OUR_NAME",
    "Connected",
    "Disconnected",
    "Record",
    "Records",
    "connect",
    "connected_file",
    "disconnect",
    "has_other_entry",
    "own_servers",
    "remove",
    "served_by_us",
    "taken_out_of",
]


def remove(path: Path | None) -> bool:
    """Remove a file of ours, and tell whether it is gone."""
    try:
        if path is not None:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What `connect` did to a file, so that it can be undone."""

    path: str
    written: tuple[str, ...]
    """The hashes of the contents that we wrote, each made from the backup."""
    entry: dict[str, Any]
    """Our entry, as the file has it."""
    backup: str | None
    """The name of the backup; ``None`` if there was no file."""
    taken_out: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """The folders that were created for the file, the innermost first."""


class Records:
    """The record and the backups of one client, which only their owner can read."""

    def __init__(self, client: ClientApp) -> None:
        self._client = client
        self._folder = user_state_path("pegboard", appauthor=False) / "clients"
        self._file = self._folder / f"{client.name}.json"

    def read(self) -> Record | None:
        """Return the record, or ``None``.

        Raises:
            ConfigError: when it is damaged.
        """
        content = read_file(self._file)
        try:
            return None if content is None else msgspec.json.decode(content, type=Record)
        except msgspec.MsgspecError:
            pass
        raise ConfigError(
            f"Pegboard's record about {self._client.title} is damaged: {self._file}. Run "
            f"`pegboard disconnect {self._client.name}` first."
        )

    def write(self, record: Record) -> None:
        """Write the record.

        Raises:
            ConfigError: when it cannot be written.
        """
        self._write(self._file, msgspec.json.encode(record))

    def forget(self, backup: Path | None = None) -> tuple[Path, ...]:
        """Remove the record and a backup, and return what could not be removed."""
        # The backup is removed last: without the record, it is what the user needs.
        return tuple(it for it in (self._file, backup) if it is not None and not remove(it))

    def keep(self, content: bytes) -> Path:
        """Write a backup under a new name, and return its path.

        Raises:
            ConfigError: when it cannot be written.
        """
        path = next(it for it in map(self._numbered, count(1)) if not it.exists())
        self._write(path, content)
        return path

    def backup(self, record: Record | None) -> Path | None:
        """Return the path of the backup that a record names, if it still exists."""
        if record is None or record.backup is None:
            return None
        path = self._folder / Path(record.backup).name
        return path if path.is_file() else None

    def tidy(self, content: bytes | None, *, needed: Path | None = None) -> None:
        """Remove what killed commands left behind.

        Args:
            content: the current content of the file; a backup with the same content is removed.
            needed: the backup that is kept in any case.
        """
        remove_leftovers(self._folder)
        for path in self._backups():
            with suppress(ConfigError):
                if path != needed and read_file(path) == content:
                    remove(path)

    def latest_backup(self) -> Path | None:
        """Return the latest backup, whichever record it belongs to."""
        return max(self._backups(), key=lambda it: it.stat().st_mtime_ns, default=None)

    def _backups(self) -> list[Path]:
        return [it for it in self._folder.glob(f"{self._client.name}.*") if it.suffix == ".backup"]

    def _numbered(self, number: int) -> Path:
        return self._folder / f"{self._client.name}{f'.{number}' if number > 1 else ''}.backup"

    def _write(self, path: Path, content: bytes) -> None:
        write_file(path, content, instead_of=read_file(path))
        if os.name == "posix":
            self._folder.chmod(0o700)
            path.chmod(0o600)
            # The name must be on the disk, too, before the client's file is changed.
            sync_folder(self._folder)


_PLACES = ("command", "cmd", "url", "uri", "serverUrl", "httpUrl")
OUR_NAME = "pegboard"
"""The name of Pegboard's entry in the files of clients."""


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """What `connect` did to the file of a client."""

    client: str
    path: Path
    backup: Path | None
    """The original file, which only its owner can read; ``None`` if there was no file."""
    taken_out: tuple[str, ...] = ()


class Disconnected(msgspec.Struct, frozen=True, kw_only=True):
    """What `disconnect` did to the file of a client."""

    client: str
    path: Path
    is_identical: bool
    """Whether the file is the original one, byte for byte. If not, it was changed or removed since
    `connect`, and only the changes of `connect` were undone."""
    put_back: tuple[str, ...] = ()
    """Servers that `connect` had removed, and that are there again."""
    backup: Path | None = None
    """The original file, if it could not be restored as a whole."""
    left: tuple[Path, ...] = ()
    """Records and backups that are no longer needed, but could not be removed."""


def served_by_us(
    client: ClientApp,
    machine: Machine,
    servers: Iterable[ServerConfig],
    *,
    imported: ImportRecord | None = None,
) -> tuple[str, ...]:
    """Return the names of a client's servers that Pegboard already serves.

    The server of a project of Claude Code is called ``name (project /its/folder)``.
    They include those that `connect` removed before, because it starts from the original file.
    With the record of imports, they also include those that were edited after their import.

    Raises:
        ConfigError: when the client's file cannot be read.
    """
    path = client.file(machine)
    served = {it.name: it for it in servers if it.enabled}
    ours = KnownServers({name: identity_of(it) for name, it in served.items()})
    theirs = _own_servers(client, machine)

    def is_served(label: str) -> bool:
        name, config = theirs[label]
        if isinstance(config, str):
            return False
        if ours.names_of(identity_of(config)):
            return True
        return imported is not None and bool(imported.name_of(path, name, config, served))

    return tuple(filter(is_served, theirs))


def own_servers(client: ClientApp, machine: Machine) -> dict[str, bool]:
    """Return the names of a client's servers, and whether each is valid; Pegboard is left out.

    They have the names that `served_by_us` gives them, and are those of the original file, too.

    Raises:
        ConfigError: when the client's file cannot be read.
    """
    theirs = _own_servers(client, machine)
    return {label: not isinstance(config, str) for label, (_, config) in theirs.items()}


def _own_servers(client: ClientApp, machine: Machine) -> dict[str, tuple[str, ServerConfig | str]]:
    """Return each server's name and configuration, or its problem, by label."""
    path = client.file(machine)
    text = text_of(path, _undone(client, path, read_file(path), Records(client).read()).content)
    found = found_by_label(client, path, text)
    return {
        label: (it.name, read_found(found[label]))
        for label, it in own_entries(client, path, text).items()
        if label in found and it.name != OUR_NAME and not is_pegboard(it.name, found[label].entry)
    }


def taken_out_of(client: ClientApp, machine: Machine) -> tuple[str, ...]:
    """Return the names of the servers that `connect` removed from a client's file.

    Servers that are in the file again are left out.

    Raises:
        ConfigError: when the client's file, or our record about it, cannot be read.
    """
    path, record = client.file(machine), Records(client).read()
    now = read_file(path)
    if record is None or record.path != str(path) or now is None:
        return ()
    there = own_entries(client, path, text_of(path, now))
    return tuple(name for name in record.taken_out if name not in there)


def has_other_entry(client: ClientApp, machine: Machine) -> bool:
    """Tell whether the file of a client has another server under our name.

    Raises:
        ConfigError: when the client's file cannot be read.
    """
    path = client.file(machine)
    text = text_of(path, read_file(path))
    there = OUR_NAME in entries_of(path, text, client.section)
    return there and not _is_ours(client, path, text, Records(client).read())


def connected_file(client: ClientApp, machine: Machine) -> Path | None:
    """Return the file of a client that `disconnect` would change; ``None`` if there is none."""
    path = client.file(machine)
    try:
        record = Records(client).read()
    except ConfigError:
        # `disconnect` says what is wrong with the record.
        return path
    if record is not None:
        return Path(record.path)
    try:
        return path if _is_ours(client, path, text_of(path, read_file(path)), None) else None
    except ConfigError:
        # A file without an entry of ours may be as broken as it likes.
        return None


def connect(
    client: ClientApp,
    machine: Machine,
    entry: dict[str, Any],
    *,
    take_out: Iterable[str] = (),
) -> Connected:
    """Write an entry for Pegboard into the file of a client, and keep a backup of the file.

    Connecting again starts from the original file. An entry under our name is replaced, whatever it
    is; `disconnect` restores it.

    Raises:
        ConfigError: when the file cannot be read or written. Nothing was changed then.
    """
    path, records = client.file(machine), Records(client)
    now, record = read_file(path), records.read()
    if record is not None and record.path != str(path):
        raise ConfigError(
            f"Pegboard is connected in another file of {client.title}: {record.path}. Run "
            f"`pegboard disconnect {client.name}` first."
        )
    before = now if record is None else _undone(client, path, now, record).content
    taken_out = tuple(take_out)
    text = text_of(path, before)
    there = own_entries(client, path, text)
    text = without_own_entries(path, text, [there[it] for it in taken_out if it in there])
    text = with_entries(path, text, client.section, {OUR_NAME: entry})
    written = text.encode()
    # The backup comes first: wherever the command is interrupted then, nothing is lost.
    kept, new = records.backup(record), None
    if before is not None and (kept is None or read_file(kept) != before):
        kept = new = records.keep(before)
    done = Record(
        path=str(path),
        written=(_hash(written),),
        entry=entry,
        backup=None if before is None or kept is None else kept.name,
        taken_out=taken_out,
        folders=(*_missing_folders(path), *(() if record is None else record.folders)),
    )
    try:
        records.write(done if record is None else _both(done, record, before, now))
        write_file(path, written, instead_of=now)
    except ConfigError:
        if record is None:
            records.forget(new)
        else:
            records.write(record)
            remove(new)
        raise
    records.write(done)
    old = records.backup(record)
    if old is not None and done.backup is not None and old.name != done.backup:
        # The new backup contains all of it that is still needed.
        remove(old)
    records.tidy(before, needed=kept)
    return Connected(client=client.name, path=path, backup=kept, taken_out=taken_out)


def disconnect(client: ClientApp, machine: Machine) -> Disconnected | None:
    """Restore the file of a client; ``None`` when Pegboard is not in it.

    Raises:
        ConfigError: when the file cannot be read or written. Nothing was changed then.
    """
    records = Records(client)
    try:
        record = records.read()
    except ConfigError:
        # The record is damaged: our entry is found in the file itself, the rest is up to the user.
        record = None
        is_damaged = True
    else:
        is_damaged = False
    path = client.file(machine) if record is None else Path(record.path)
    now = read_file(path)
    before, put_back, is_identical = _undone(client, path, now, record)
    backup = records.latest_backup() if is_damaged else records.backup(record)
    if is_damaged and _has_our_name(client, path, before):
        raise ConfigError(
            f"Pegboard's record about {client.title} is damaged, so Pegboard cannot tell whether "
            f"the server {OUR_NAME!r} in {path} is its own. Remove the entry by hand."
        )
    is_lost = now is None and backup is not None and not is_identical
    if before == now and not is_identical and not is_lost and not is_damaged:
        records.forget()
        records.tidy(now)
        return None
    if before is None:
        _remove_file(path)
        _remove_empty(() if record is None else record.folders)
    elif before != now:
        write_file(path, before, instead_of=now)
    left = records.forget(backup if is_identical else None)
    records.tidy(before, needed=backup)
    return Disconnected(
        client=client.name,
        path=path,
        is_identical=is_identical,
        put_back=put_back,
        backup=None if is_identical else backup,
        left=left,
    )


class _Undone(NamedTuple):
    content: bytes | None
    """The file without our changes."""
    put_back: tuple[str, ...] = ()
    is_identical: bool = False


def _undone(client: ClientApp, path: Path, now: bytes | None, record: Record | None) -> _Undone:
    if record is not None and record.path != str(path):
        record = None
    if now is None:
        return _Undone(None)
    kept = Records(client).backup(record)
    backup = None if kept is None else read_file(kept)
    is_ours = record is not None and _hash(now) in record.written
    if record is not None and is_ours and (record.backup is None or backup is not None):
        return _Undone(backup, record.taken_out, is_identical=True)
    text = text_of(path, now)
    if _is_ours(client, path, text, record):
        text = without_entries(path, text, client.section, [OUR_NAME])
    there = own_entries(client, path, text)
    old = {} if record is None else own_entries(client, path, text_of(path, backup))
    missing = () if record is None else (*record.taken_out, OUR_NAME)
    put_back = tuple(name for name in missing if name in old and name not in there)
    text = with_own_entries(path, text, [old[name] for name in put_back])
    return _Undone(text.encode(), put_back)


def _both(done: Record, record: Record, before: bytes | None, now: bytes | None) -> Record:
    """Return a record that fits the file about to be written, and the file that is there now."""
    taken_out = tuple(dict.fromkeys((*done.taken_out, *record.taken_out)))
    written = done.written if now is None or now == before else (*done.written, _hash(now))
    return msgspec.structs.replace(done, written=written, taken_out=taken_out)


def _is_ours(client: ClientApp, path: Path, text: str, record: Record | None) -> bool:
    """Tell whether the entry under our name is Pegboard."""
    entry = entries_of(path, text, client.section).get(OUR_NAME)
    if entry is None:
        return False
    found = found_by_label(client, path, text).get(OUR_NAME)
    is_written_by_us = record is not None and _leads_alike(entry, record.entry)
    return is_written_by_us or (found is not None and is_pegboard(OUR_NAME, found.entry))


def _leads_alike(entry: object, ours: Mapping[str, Any]) -> bool:
    """Tell whether an entry is ours, whatever the user or the client has added to it since."""
    if not isinstance(entry, Mapping):
        return False
    known = cast("Mapping[str, Any]", entry)
    return any(it in ours and known.get(it) == ours[it] for it in _PLACES)


def _has_our_name(client: ClientApp, path: Path, content: bytes | None) -> bool:
    if content is None:
        return False
    return OUR_NAME in entries_of(path, text_of(path, content), client.section)


def _missing_folders(path: Path) -> tuple[str, ...]:
    return tuple(str(it) for it in Path(os.path.realpath(path)).parents if not it.exists())


def _remove_file(path: Path) -> None:
    try:
        # Of a link to a missing file, the link itself was there before.
        Path(os.path.realpath(path)).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(
            f"The file cannot be removed: {error.strerror}.", path=str(path)
        ) from None


def _remove_empty(folders: Iterable[str]) -> None:
    for folder in folders:
        try:
            Path(folder).rmdir()
        except OSError:
            # Another program has put a file there, so the outer folders are not empty, either.
            return


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
