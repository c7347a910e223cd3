"""ServerLog: what servers wrote to standard error and what was done with them, in rotated files."""

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path

import msgspec
import platformdirs

from pegboard.config.atomic_write import make_folder
from pegboard.model.hidden_characters import visible
from pegboard.observe.background_writer import BackgroundWriter
from pegboard.observe.json_lines import append_lines, open_file_to_append
from pegboard.storage.file_lock import LockedFile

__all__ = ["LogLine", "ServerLog", "TenantLog", "default_log_folder", "log_files"]

logger: logging.Logger = logging.getLogger("pegboard.observe")

STDERR = "stderr"
"""The event of a line that a server wrote."""
MOST_WAITING = 10_000
_LONGEST = 500
_ENDING, _OLD = ".jsonl", ".old.jsonl"
_LOCK = ".lock"
_SAFE = re.compile(r"[^A-Za-z0-9._-]+")


class LogLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the log."""

    at: datetime
    server: str
    """Empty for the gateway itself."""
    event: str
    """``stderr`` for what the server wrote; otherwise what happened to it."""
    text: str = ""
    tenant: str = ""
    """Empty for the first tenant."""
    pid: int = 0
    """The process of the gateway."""


class ServerLog:
    """Takes lines at once, and writes them in the background; each server has files of its own.

    Several gateways of a user share the folder. A file that is full becomes the old one, in whose
    place the one before it is removed.

    Args:
        folder: where the files are; only their owner may read them. ``None`` to write nothing.
        most: how many bytes all files may have together.
        most_each: how many bytes the files of one server may have.
        watch: also gets each line that is not output of a server.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        most: int = 20_000_000,
        most_each: int = 2_000_000,
        watch: Callable[[LogLine], object] | None = None,
    ) -> None:
        self._folder = folder
        self._most = most
        self._most_each = min(most, most_each)
        self._watch = watch
        self._writer = BackgroundWriter[Callable[[], LogLine]](
            self._write, most=MOST_WAITING, owner="server-log"
        )
        self._has_warned = False
        self._lost = 0

    def of(self, tenant: str = "") -> "TenantLog":
        """Return the log for the servers of a tenant."""
        return TenantLog(self, tenant)

    def add(self, line: LogLine) -> None:
        """Take an event."""
        if self._watch is not None:
            self._watch(line)
        if self._folder is not None:
            self._writer.put(lambda: line)

    def add_output(
        self, tenant: str, server: str, line: bytes, read: Callable[[bytes], str]
    ) -> None:
        """Take a line that a server wrote."""
        if self._folder is not None and line.strip():
            self._writer.put(partial(_output, _now(), tenant, server, line, read))

    def flush(self) -> None:
        """Write what is waiting now."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is waiting and stop."""
        self._writer.close()

    def _write(self, waiting: Sequence[Callable[[], LogLine]], dropped: int) -> None:
        assert self._folder is not None
        lines = [make() for make in waiting]
        lost, self._lost = self._lost + dropped, 0
        if lost:
            lost_lines = "1 line" if lost == 1 else f"{lost:,} lines"
            lines.insert(0, _line("", "dropped", f"{lost_lines} of this log lost"))
        lock = LockedFile(self._folder / _LOCK)
        try:
            make_folder(self._folder)
            with lock.locked(alone=True):
                self._append(self._folder, sorted(lines, key=_owner))
                self._prune(self._folder)
        except OSError as error:
            self._failed(error, len(lines))
        finally:
            lock.close()
        if self._lost and lost:
            # The line that says so was lost as well, or could have been.
            self._lost += lost - 1

    def _append(self, folder: Path, lines: Sequence[LogLine]) -> None:
        for (tenant, server), group in groupby(lines, key=_owner):
            path = folder / _file_name(tenant, server)
            for block, number in _blocks(group, self._most_each // 2):
                try:
                    self._append_block(path, block)
                except OSError as error:
                    self._failed(error, number)

    def _failed(self, error: OSError, lines: int) -> None:
        self._lost += lines
        if not self._has_warned:
            self._has_warned = True
            words = "server_log_failed: %s; the gateway goes on, and its log of servers has a gap"
            logger.warning(words, error, extra={"reason": str(error)})

    def _append_block(self, path: Path, block: bytes) -> None:
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size and size + len(block) > self._most_each // 2:
            path.replace(path.with_name(f"{path.name.removesuffix(_ENDING)}{_OLD}"))
        file = open_file_to_append(path)
        try:
            append_lines(file, block)
        finally:
            os.close(file)

    def _prune(self, folder: Path) -> None:
        found = [(it, it.stat()) for it in log_files(folder)]
        total = sum(it.st_size for _, it in found)
        for path, about in sorted(found, key=lambda it: it[1].st_mtime_ns):
            if total <= self._most:
                return
            path.unlink(missing_ok=True)
            total -= about.st_size


class TenantLog:
    """The log for the servers of one tenant; what a hub is given as ``server_log``."""

    def __init__(self, log: ServerLog, tenant: str) -> None:
        self._log = log
        self._tenant = tenant

    def note(self, server: str, event: str, text: str = "") -> None:
        """Take an event; the text holds no secrets."""
        self._log.add(_line(server, event, text, tenant=self._tenant))

    def wrote(self, server: str, lines: Sequence[bytes], read: Callable[[bytes], str]) -> None:
        """Take lines as they were written; ``read`` makes each of them fit to be seen."""
        for line in lines:
            self._log.add_output(self._tenant, server, line, read)


def default_log_folder() -> Path:
    """Return where the gateways of this user keep the log."""
    return Path(platformdirs.user_state_dir("pegboard", appauthor=False)) / "logs"


def log_files(folder: Path) -> list[Path]:
    """Return the files of a log."""
    return [it for it in folder.iterdir() if it.name.endswith(_ENDING)]


def _line(server: str, event: str, text: str, *, tenant: str = "") -> LogLine:
    # A reason may have several lines, and a server may have chosen its words.
    text = visible(" ".join(text[: 2 * _LONGEST].split()))[:_LONGEST]
    return LogLine(at=_now(), server=server, event=event, text=text, tenant=tenant, pid=os.getpid())


def _output(
    at: datetime, tenant: str, server: str, line: bytes, read: Callable[[bytes], str]
) -> LogLine:
    return LogLine(
        at=at, server=server, event=STDERR, text=read(line), tenant=tenant, pid=os.getpid()
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _owner(line: LogLine) -> tuple[str, str]:
    return line.tenant, line.server


def _file_name(tenant: str, server: str) -> str:
    """Return a name that is safe, tells people the server, and that no other server has."""
    digest = hashlib.sha256(f"{tenant}\0{server}".encode(errors="replace")).hexdigest()[:12]
    return f"{_SAFE.sub('_', server)[:40] or 'gateway'}-{digest}{_ENDING}"


def _blocks(lines: Iterator[LogLine], most: int) -> Iterator[tuple[bytes, int]]:
    """Yield the lines as JSON in blocks that fit into a file, each with its number of lines."""
    block, number = b"", 0
    for line in lines:
        written = msgspec.json.encode(line) + b"\n"
        if number and len(block) + len(written) > most:
            yield block, number
            block, number = b"", 0
        block += written
        number += 1
    if number:
        yield block, number
