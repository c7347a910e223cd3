"""One at a time: commands that change files of the user wait for each other."""

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
    """Let a command that changes files of the user run while no other one does.

    It waits for those of the same home, and for those that change a file in the same folder.

    Whoever ends, however that happens, lets go of the lock. Where none can be had, nobody waits.

    Args:
        given: the words of the command.

    Raises:
        ConfigError: when another command does not come to an end.
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
        # Who has another home has other files.
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
    """Open the folder of the file of servers: who has another home may have the same file."""
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
                    "what it asks, or end it."
                ) from None
        except OSError:
            # There are folders without locks.
            return
        else:
            return
        if not is_told:
            warn("Another `pegboard` command changes your files; waiting for it, a minute at most.")
            is_told = True
        time.sleep(_PAUSE)
