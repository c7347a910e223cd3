"""Pegboard put into the file of a client, and taken out again as if it had never been there."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from platformdirs import user_state_path

from pegboard.clients.client import Client
from pegboard.clients.client_file import entries_of, text_of, with_entry, without_entry
from pegboard.clients.found_servers import ClientFile, servers_in
from pegboard.clients.identity import identity_of, same_among
from pegboard.clients.import_plan import read_found
from pegboard.clients.machine import Machine
from pegboard.clients.our_entry import is_pegboard
from pegboard.config.servers import ServerConfig
from pegboard.config.write_file import read_file, write_file
from pegboard.errors import ConfigError

__all__ = ["OUR_NAME", "Connected", "Disconnected", "connect", "disconnect", "served_by_us"]

OUR_NAME = "pegboard"
"""The name of our entry in the files of clients."""


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to the file of a client."""

    client: str
    path: Path
    backup: Path | None
    """The file as it was, readable by its owner only; ``None`` if there was none."""
    taken_out: tuple[str, ...] = ()


class Disconnected(msgspec.Struct, frozen=True, kw_only=True):
    """How the file of a client was brought back."""

    client: str
    path: Path
    is_identical: bool
    """Whether the file is as it was, byte for byte; else it was changed since, and only our entry
    was taken out."""
    put_back: tuple[str, ...] = ()
    """Servers that `connect` had taken out, and that are there again."""
    backup: Path | None = None
    """Kept where the file could not be brought back as a whole."""


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """What we did, so that it can be undone."""

    path: str
    written: str
    """The hash of what we wrote."""
    existed: bool
    taken_out: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """The folders that were made for the file, the innermost first."""


def served_by_us(
    client: Client, machine: Machine, servers: Iterable[ServerConfig]
) -> tuple[str, ...]:
    """Return the names of a client's servers that these servers of ours make superfluous.

    Those that `connect` took out before are among them: it begins again with the file as it was.

    Raises:
        ConfigError: when the client's file cannot be read.
    """
    path = client.file(machine)
    ours = {identity_of(it) for it in servers if it.enabled}
    text = text_of(path, _undone(client, path, read_file(path))[0])
    there = entries_of(path, text, client.section)
    # Of two with the same name, the first one stands in that section.
    file = ClientFile(path=path, client=client.name)
    found = {it.name: it for it in reversed(servers_in(file, text))}
    configs = {
        name: read_found(it)
        for name, it in found.items()
        if name in there and not is_pegboard(name, it.entry)
    }
    return tuple(
        name
        for name in there
        if isinstance(config := configs.get(name), ServerConfig)
        and same_among(identity_of(config), ours) is not None
    )


def connect(
    client: Client,
    machine: Machine,
    entry: dict[str, Any],
    *,
    take_out: Iterable[str] = (),
) -> Connected:
    """Write an entry for Pegboard into the file of a client, with a backup of what was there.

    Connecting once more begins again with the file as it was at first.

    Raises:
        ConfigError: when the file cannot be read or written. Nothing was changed then.
    """
    path = client.file(machine)
    now = read_file(path)
    record = _record(client)
    if record is not None and record.path != str(path):
        raise ConfigError(
            f"Pegboard is in another file of {client.title}: {record.path}. Run "
            f"`pegboard disconnect {client.name}` first."
        )
    before = now if record is None else _undone(client, path, now)[0]
    text = text_of(path, before)
    taken_out = tuple(take_out)
    for name in taken_out:
        text = without_entry(path, text, (*client.section, name))
    text = with_entry(path, text, (*client.section, OUR_NAME), entry)
    written = text.encode()
    done = _Record(
        path=str(path),
        written=_hash(written),
        existed=before is not None,
        taken_out=taken_out,
        folders=(*_missing_folders(path), *(() if record is None else record.folders)),
    )
    # First of all the backup: whatever happens then, nothing is lost.
    backup = _backup_file(client)
    _write_private(backup, before or b"")
    write_file(path, written, instead_of=now)
    _write_private(_record_file(client), msgspec.json.encode(done))
    return Connected(
        client=client.name,
        path=path,
        backup=None if before is None else backup,
        taken_out=taken_out,
    )


def disconnect(client: Client, machine: Machine) -> Disconnected | None:
    """Bring the file of a client back; ``None`` when Pegboard is not in it.

    Raises:
        ConfigError: when the file cannot be read or written.
    """
    record = _record(client)
    path = client.file(machine) if record is None else Path(record.path)
    now = read_file(path)
    is_identical = record is not None and now is not None and _hash(now) == record.written
    before, put_back = _undone(client, path, now)
    if before == now and not is_identical:
        _record_file(client).unlink(missing_ok=True)
        return None
    if before is None:
        # Of a link that led nowhere, the link is what was there.
        Path(os.path.realpath(path)).unlink(missing_ok=True)
        _remove_empty(() if record is None else record.folders)
    else:
        write_file(path, before, instead_of=now)
    backup = _backup_file(client)
    if is_identical:
        backup.unlink(missing_ok=True)
    _record_file(client).unlink(missing_ok=True)
    return Disconnected(
        client=client.name,
        path=path,
        is_identical=is_identical,
        put_back=put_back,
        backup=backup if backup.is_file() else None,
    )


def _undone(client: Client, path: Path, now: bytes | None) -> tuple[bytes | None, tuple[str, ...]]:
    """Return the file without what we did to it, and the servers that are back by name."""
    record = _record(client)
    if record is not None and record.path != str(path):
        record = None
    if now is None:
        return None, ()
    backup = read_file(_backup_file(client)) or b""
    if record is not None and _hash(now) == record.written:
        return (backup if record.existed else None), record.taken_out
    text = text_of(path, now)
    there = entries_of(path, text, client.section)
    if OUR_NAME not in there:
        return now, ()
    text = without_entry(path, text, (*client.section, OUR_NAME))
    put_back: list[str] = []
    old = {} if record is None else entries_of(path, text_of(path, backup), client.section)
    for name in () if record is None else record.taken_out:
        if name in old and name not in there:
            text = with_entry(path, text, (*client.section, name), old[name])
            put_back.append(name)
    return text.encode(), tuple(put_back)


def _missing_folders(path: Path) -> tuple[str, ...]:
    return tuple(str(it) for it in Path(os.path.realpath(path)).parents if not it.exists())


def _remove_empty(folders: Iterable[str]) -> None:
    for folder in folders:
        try:
            Path(folder).rmdir()
        except OSError:
            # Somebody has put something there; then the outer ones are not empty, either.
            return


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _folder() -> Path:
    return user_state_path("pegboard", appauthor=False) / "clients"


def _record_file(client: Client) -> Path:
    return _folder() / f"{client.name}.json"


def _backup_file(client: Client) -> Path:
    return _folder() / f"{client.name}.backup"


def _record(client: Client) -> _Record | None:
    content = read_file(_record_file(client))
    try:
        return None if content is None else msgspec.json.decode(content, type=_Record)
    except msgspec.MsgspecError:
        # Damaged: then our entry is found in the file itself.
        return None


def _write_private(path: Path, content: bytes) -> None:
    write_file(path, content, instead_of=read_file(path))
    if os.name == "posix":
        path.parent.chmod(0o700)
        path.chmod(0o600)
