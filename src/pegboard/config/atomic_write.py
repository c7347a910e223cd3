"""Read files and named pipes without blocking, and write files atomically."""

import errno
import os
import re
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from pegboard.errors import ConfigError

__all__ = ["read_file", "read_named_file", "remove_leftovers", "write_file"]

_NO_WRITER = "it is a pipe, and no process writes to it"


def read_named_file(path: Path, at_most: int = -1) -> bytes:
    """Return the content of a file, or of a pipe that another process writes to.

    Args:
        path: the file, or a pipe such as a shell makes for ``<(…)``.
        at_most: the number of bytes that are enough; one more may be returned. ``-1`` reads all.

    Raises:
        OSError: when it cannot be read, or is a pipe that no process writes to.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        begin = _begin_of_pipe(file.fileno(), path)
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(file.fileno(), True)
        return begin + file.read(at_most)


def _open_at_once(path: str, flags: int) -> int:
    # Otherwise opening a pipe waits until another process opens its other end.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _begin_of_pipe(descriptor: int, path: Path) -> bytes:
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return b""
    try:
        begin = os.read(descriptor, 1)
    except BlockingIOError:
        # A process has the other end open, and has not written yet.
        return b""
    if not begin:
        raise OSError(errno.EPIPE, _NO_WRITER, str(path))
    return begin


_MAX_BYTES = 10_000_000
_WRITABLE = 0o222
_RANDOM = r"[a-z0-9_]{8}"
_OLD = 3600.0
"""Seconds: the process that began a temporary file that long ago is gone."""


def read_file(path: Path) -> bytes | None:
    """Return the content of a file, or ``None`` if the file does not exist.

    Raises:
        ConfigError: when it cannot be read, or is larger than 10 MB.
    """
    try:
        content = read_named_file(path, _MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"The file cannot be read: {error.strerror}.", path=str(path)) from None
    except ValueError:
        # The path is not quoted: it cannot be printed.
        raise ConfigError("A path cannot contain a null character.") from None
    if len(content) > _MAX_BYTES:
        raise ConfigError("The file is larger than 10 MB.", path=str(path))
    return content


def write_file(
    path: Path, content: bytes, *, instead_of: bytes | None, tidies: bool = True
) -> None:
    """Write a file atomically: at every moment a reader sees the old content or the new one.

    Links are followed, and an existing file keeps its mode and owner. Only its owner can read a
    new file or a new folder. A read-only file is not replaced.

    Args:
        path: the file.
        content: the whole content.
        instead_of: the content that the caller read before; ``None`` if there was no file.
        tidies: whether to remove temporary files that killed commands left behind.

    Raises:
        ConfigError: when the file cannot be written, or another program wrote it in the meantime.
            Nothing was changed then.
    """
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise _refusal(path, error) from None
    temporary = Path(name)
    if tidies:
        remove_leftovers(target.parent, target.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _take_over(target, temporary)
        if read_file(target) != instead_of:
            raise ConfigError(
                "Another program changed the file just now, so nothing was written. Try again.",
                path=str(path),
            )
        temporary.replace(target)
    except OSError as error:
        raise _refusal(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove temporary files that killed commands left behind an hour ago or earlier.

    Args:
        folder: where the commands wrote.
        name: the file that they wrote; ``None`` for any file, in a folder of our own.
    """
    written = ".+" if name is None else re.escape(name)
    pattern = re.compile(rf"\.{written}\.{_RANDOM}\.tmp", re.DOTALL)
    whose = os.getuid() if hasattr(os, "getuid") else None
    # A leftover that cannot be removed must not stop the caller from writing.
    with suppress(OSError), os.scandir(folder) as found:
        for it in [it for it in found if pattern.fullmatch(it.name)]:
            about = it.stat(follow_symlinks=False)
            is_own = stat.S_ISREG(about.st_mode) and whose in (None, about.st_uid)
            if is_own and about.st_mtime < time.time() - _OLD:
                Path(it.path).unlink(missing_ok=True)


def _take_over(target: Path, temporary: Path) -> None:
    """Give the new file the mode and the owner of the old one, which has to be a file."""
    with suppress(FileNotFoundError):
        old = target.stat()
        if not stat.S_ISREG(old.st_mode):
            raise ConfigError("It is not a file, so it was not changed.", path=str(target))
        if not old.st_mode & _WRITABLE:
            # A writable folder would let us replace it all the same.
            raise ConfigError("The file is read-only, so it was not changed.", path=str(target))
        if hasattr(os, "chown"):
            with suppress(OSError):
                os.chown(temporary, old.st_uid, old.st_gid)
        temporary.chmod(old.st_mode & 0o777)


def _refusal(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"The file cannot be written: {error.strerror}.", path=str(path))
