"""Records and backups of the client files that `connect` changes, so that it can be undone."""

import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from platformdirs import user_state_path

from pegboard.clients.known_clients import ClientApp
from pegboard.config.atomic_write import read_file, remove_leftovers, sync_folder, write_file
from pegboard.errors import ConfigError

__all__ = ["Record", "Records", "remove"]


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
