"""What we do to the files of clients, written down beforehand, and the files as they were."""

import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from platformdirs import user_state_path

from pegboard.clients.client import ClientApp
from pegboard.config.atomic_write import read_file, remove_leftovers, sync_folder, write_file
from pegboard.errors import ConfigError

__all__ = ["Record", "Records", "remove"]


def remove(path: Path | None) -> bool:
    """Remove a file of ours, and tell whether there is none now."""
    try:
        if path is not None:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What we did, so that it can be undone."""

    path: str
    written: tuple[str, ...]
    """The hashes of what we wrote; all of it came from what is in the backup."""
    entry: dict[str, Any]
    """Ours, as it stands in the file."""
    backup: str | None
    """The name of the file as it was; ``None`` if there was none."""
    taken_out: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """The folders that were made for the file, the innermost first."""


class Records:
    """The record and the backups of one client, readable by their owner only."""

    def __init__(self, client: ClientApp) -> None:
        self._client = client
        self._folder = user_state_path("pegboard", appauthor=False) / "clients"
        self._file = self._folder / f"{client.name}.json"

    def read(self) -> Record | None:
        """Return what is written down, if something is.

        Raises:
            ConfigError: when it is damaged.
        """
        content = read_file(self._file)
        try:
            return None if content is None else msgspec.json.decode(content, type=Record)
        except msgspec.MsgspecError:
            pass
        raise ConfigError(
            f"What Pegboard wrote down about {self._client.title} is damaged: {self._file}. Run "
            f"`pegboard disconnect {self._client.name}` first."
        )

    def write(self, record: Record) -> None:
        """Write it down.

        Raises:
            ConfigError: when that is not possible.
        """
        self._write(self._file, msgspec.json.encode(record))

    def forget(self, backup: Path | None = None) -> tuple[Path, ...]:
        """Remove what is written down, and a backup, and return what could not be removed."""
        # The backup last: without the record, it is what a person needs.
        return tuple(it for it in (self._file, backup) if it is not None and not remove(it))

    def keep(self, content: bytes) -> Path:
        """Write a backup under a name that no other one has, and return it.

        Raises:
            ConfigError: when that is not possible.
        """
        path = next(it for it in map(self._numbered, count(1)) if not it.exists())
        self._write(path, content)
        return path

    def backup(self, record: Record | None) -> Path | None:
        """Return the file as it was, if it is still there."""
        if record is None or record.backup is None:
            return None
        path = self._folder / Path(record.backup).name
        return path if path.is_file() else None

    def tidy(self, content: bytes | None, *, needed: Path | None = None) -> None:
        """Remove what commands that were killed left behind.

        Args:
            content: a backup that holds just this holds nothing that would be missed.
            needed: the one that stays even so.
        """
        remove_leftovers(self._folder)
        for path in self._backups():
            with suppress(ConfigError):
                if path != needed and read_file(path) == content:
                    remove(path)

    def latest_backup(self) -> Path | None:
        """Return the last backup that was made, whatever it belonged to."""
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
            # The name has to last, too, before anything is done that it is needed for.
            sync_folder(self._folder)
