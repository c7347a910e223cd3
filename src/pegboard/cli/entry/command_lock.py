"""Lock so that commands which change the user's files run one at a time."""

import os
import tempfile
import time
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from pegboard.cli.terminal.output import warn
from pegboard.errors import ConfigError

__all__ = ["in_turn"]

_PATIENCE = 60.0
_PAUSE = 0.02


@contextmanager
def in_turn(given: Sequence[str] = ()) -> Generator[None]:
    """Hold the lock while a command changes files of the user.

    It waits for commands of the same home, and for those that change a file in the same folder.

    The system releases the lock when the process ends. If no lock is possible, it does not wait.

    Args:
        given: the words of the command.

    Raises:
        ConfigError: when another command does not end.
    """
    handles = [it for it in (_opened(), _opened_folder(given)) if it is not None]
    try:
        for handle in handles:
            _wait(handle)
        yield
    finally:
        for handle in handles:
            os.close(handle)


def _opened() -> int | None:
    whose = os.getuid() if hasattr(os, "getuid") else ""
    try:
        # Users with another home have other files.
        home = zlib.crc32(os.fsencode(Path.home()))
        # Not in the user's folders: a command that changes nothing leaves nothing there.
        path = Path(tempfile.gettempdir()) / f"pegboard-{whose}-{home:08x}.lock"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except (OSError, RuntimeError):
        return None
    if whose != "" and os.fstat(handle).st_uid != whose:
        os.close(handle)
        return None
    return handle


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


def _wait(handle: int) -> None:
    from pegboard.storage.file_lock import take  # noqa: PLC0415 - only to change files

    end = time.monotonic() + _PATIENCE
    is_told = False
    while True:
        try:
            take(handle, alone=True)
        except (BlockingIOError, PermissionError):
            if time.monotonic() > end:
                raise ConfigError(
                    "Another `pegboard` command has been changing your files for a minute. Answer "
                    "its question, or end it."
                ) from None
        except OSError:
            # Some file systems have no locks.
            return
        else:
            return
        if not is_told:
            warn(
                "Another `pegboard` command is changing your files; waiting up to a minute for it."
            )
            is_told = True
        time.sleep(_PAUSE)
