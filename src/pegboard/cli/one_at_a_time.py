"""One at a time: commands that change files of the user wait for each other."""

import os
import tempfile
import time
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pegboard.cli.output import warn
from pegboard.errors import ConfigError

__all__ = ["in_turn"]

_PATIENCE = 60.0
_PAUSE = 0.02


@contextmanager
def in_turn() -> Generator[None]:
    """Let a command that changes files of the user run while no other one does.

    Whoever ends, however that happens, lets go of the lock. Where none can be had, nobody waits.

    Raises:
        ConfigError: when another command does not come to an end.
    """
    handle = _opened()
    try:
        if handle is not None:
            _wait(handle)
        yield
    finally:
        if handle is not None:
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


def _wait(handle: int) -> None:
    from pegboard.storage.json_file.file_lock import take  # noqa: PLC0415 - only to change files

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
