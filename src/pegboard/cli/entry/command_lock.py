"""Lock so that commands which change the user's files run one at a time."""

import os
import re
import sys
import tempfile
import time
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from pegboard.cli.terminal.output import around_questions, warn
from pegboard.errors import ConfigError

__all__ = ["in_turn"]

_PATIENCE = 60.0
_PAUSE = 0.02
_SIGNED = re.compile(rb"([0-9]+) ([a-z-]+)")


@contextmanager
def in_turn(given: Sequence[str]) -> Generator[None]:
    """Hold the lock while a command changes files of the user.

    It waits for commands of the same home, and for those that change a file in the same folder.

    While the command asks the user, it leaves the lock to others, and takes it again once there is
    an answer. The system releases the lock when the process ends. If no lock is possible, it does
    not wait.

    Args:
        given: the words of the command.

    Raises:
        ConfigError: when another command does not end.
    """
    turn = _Turn(given)
    try:
        turn.take()
        with around_questions(turn.left):
            yield
    finally:
        turn.leave()


class _Turn:
    """The locks of one command; afterwards nothing is left of them."""

    def __init__(self, given: Sequence[str]) -> None:
        self._given = given
        self._path = _path()
        self._home: int | None = None
        self._folder: int | None = None

    def take(self) -> None:
        """Wait for the locks.

        Raises:
            ConfigError: when another command does not end.
        """
        wait = _Wait()
        while self._path is not None:
            self._home = _opened(self._path)
            if self._home is None:
                break
            wait.until_taken(self._home)
            if _is_at(self._path, self._home):
                _sign(self._home, self._given)
                break
            # The last holder has removed the file, and another process may have made a new one.
            os.close(self._home)
            self._home = None
        self._folder = _opened_folder(self._given)
        if self._folder is not None:
            wait.until_taken(self._folder)

    @contextmanager
    def left(self) -> Generator[None]:
        """Leave the locks to others for a while; an interruption does not take them again."""
        self.leave()
        yield
        self.take()

    def leave(self) -> None:
        """Release what was taken, and remove the file."""
        folder, home, self._folder, self._home = self._folder, self._home, None, None
        if folder is not None:
            os.close(folder)
        if home is None or self._path is None:
            return
        if sys.platform == "win32":
            # An open file cannot be removed there, nor one that another process has open.
            os.close(home)
            _remove(self._path)
        else:
            if _is_at(self._path, home):
                _remove(self._path)
            os.close(home)


def _path() -> Path | None:
    whose = os.getuid() if hasattr(os, "getuid") else ""
    try:
        # Users with another home have other files.
        home = zlib.crc32(os.fsencode(Path.home()))
        # Not in the user's folders: a command that changes nothing makes no folder there.
        return Path(tempfile.gettempdir()) / f"pegboard-{whose}-{home:08x}.lock"
    except (OSError, RuntimeError):
        return None


def _opened(path: Path) -> int | None:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError:
        return None
    if hasattr(os, "getuid") and os.fstat(handle).st_uid != os.getuid():
        os.close(handle)
        return None
    return handle


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except OSError:
        return False


def _sign(handle: int, given: Sequence[str]) -> None:
    """Write who holds the lock; of the words only the command, as others may be secrets."""
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, f"{os.getpid()} {given[0]}".encode())


def _holder(handle: int) -> str:
    """Return who holds the lock, as far as the file says so."""
    found = None
    with suppress(OSError):
        os.lseek(handle, 0, os.SEEK_SET)
        found = _SIGNED.fullmatch(os.read(handle, 100))
    if found is None:
        return "Another `pegboard` command"
    return f"`pegboard {found[2].decode()}` (process {found[1].decode()})"


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _opened_folder(given: Sequence[str]) -> int | None:
    """Open the folder of the configuration file: users with other homes may share that file."""
    from pegboard.config.files.servers_file import file_to_edit  # noqa: PLC0415 - only to change files

    ours = given[: given.index("--")] if "--" in given else given
    named = [it.partition("=")[2] for it in ours if it.startswith("--config=")]
    named += [then for it, then in pairwise(ours) if it == "--config"]
    try:
        return os.open(Path(os.path.realpath(file_to_edit(*named[-1:]))).parent, os.O_RDONLY)
    except (ConfigError, OSError, RuntimeError, ValueError):
        # There is none yet, or it is no place for files, as the command itself will say.
        return None


class _Wait:
    """One wait for several locks: a minute for all of them, and one message."""

    def __init__(self) -> None:
        self._end = time.monotonic() + _PATIENCE
        self._is_told = False

    def until_taken(self, handle: int) -> None:
        """Lock an open file as soon as no other command has it.

        Raises:
            ConfigError: when another command does not end.
        """
        from pegboard.storage.file_lock import take  # noqa: PLC0415 - only to change files

        while True:
            try:
                take(handle, alone=True)
            except (BlockingIOError, PermissionError):
                self._pause(handle)
            except OSError:
                # Some file systems have no locks.
                return
            else:
                return

    def _pause(self, handle: int) -> None:
        if time.monotonic() > self._end:
            raise ConfigError(
                f"{_holder(handle)} has been changing your files for a minute. End it, and try "
                "again."
            )
        if not self._is_told:
            warn(
                f"{_holder(handle)} is changing your files; waiting up to a minute for it. If it "
                "hangs, end it."
            )
            self._is_told = True
        time.sleep(_PAUSE)
