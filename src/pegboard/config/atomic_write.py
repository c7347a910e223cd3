"""Write a file as a whole: at every moment it is the old one or the new one."""

import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from pegboard.errors import ConfigError

__all__ = [
    "make_folder",
    "new_file",
    "read_file",
    "read_named_file",
    "remove_leftovers",
    "replace_file",
    "sync_folder",
    "write_all",
    "write_file",
]

_NO_WRITER = "it is a pipe, and no process writes to it"


def read_named_file(path: Path, at_most: int = -1) -> bytes:
    """Return the content of a file, or of a pipe that another process writes to.

    Args:
        path: the file, or a pipe such as a shell makes of ``<(…)``.
        at_most: so many bytes are enough, or one more; ``-1`` for all of them.

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
    """Return what is in a file, or ``None`` if there is none.

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
    """Put content under a path, following links; mode and owner of what is there are kept.

    Links are followed, and an existing file keeps its mode and owner. Only its owner can read a
    new file or a new folder. A read-only file is not replaced.

    Args:
        path: where to.
        content: the whole file.
        instead_of: what was there when the content was made, ``None`` for no file.
        tidies: whether what killed commands left of writing this file is removed.

    Raises:
        ConfigError: when that is not possible, or another program wrote in the meantime. Nothing
            was changed then.
    """
    target = Path(os.path.realpath(path))
    try:
        make_folder(target.parent)
        if tidies:
            remove_leftovers(target.parent, target.name)
        _check_replaceable(target)
        with new_file(target, content) as temporary:
            if read_file(target) != instead_of:
                raise ConfigError(
                    "Another program changed the file just now, so nothing was written. Try again.",
                    path=str(path),
                )
            temporary.replace(target)
    except OSError as error:
        problem = f"The file cannot be written: {error.strerror}."
        raise ConfigError(problem, path=str(path)) from None


def replace_file(path: Path, content: bytes, *, keeps_mode: bool = True) -> None:
    """Put content under a path, following links; see `new_file`. `sync_folder` makes it last.

    Raises:
        OSError: when that is not possible; then the old content is still there.
    """
    target = Path(os.path.realpath(path))
    with new_file(target, content, keeps_mode=keeps_mode) as temporary:
        temporary.replace(target)


@contextmanager
def new_file(target: Path, content: bytes, *, keeps_mode: bool = True) -> Generator[Path]:
    """Write content to the disk beside a file, and give its path until the caller renames it.

    Args:
        target: the file that the caller will replace; not a link.
        content: the whole file.
        keeps_mode: whether the new file has the mode and owner of the old one. A file that is
            new, or for which this is false, can be read by its owner alone.

    Raises:
        OSError: when that is not possible.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        try:
            if keeps_mode:
                with suppress(FileNotFoundError):
                    _keep_mode(target, temporary)
            write_all(handle, content)
            os.fsync(handle)
        finally:
            os.close(handle)
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_all(handle: int, data: bytes) -> None:
    """Write to an open file, however many attempts that takes."""
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, data[written:])


def sync_folder(folder: Path) -> None:
    """Wait until names that were given or taken away in a folder are on the disk."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can read, and those above it, unless there is one."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what commands that were killed left behind: files of our pattern, an hour old.

    Args:
        folder: where they wrote.
        name: the file that they wrote; ``None`` for any, in a folder of our own.
    """
    written = ".+" if name is None else re.escape(name)
    pattern = re.compile(rf"\.{written}\.{_RANDOM}\.tmp", re.DOTALL)
    whose = os.getuid() if hasattr(os, "getuid") else None
    # What cannot be removed is no reason not to write.
    with suppress(OSError), os.scandir(folder) as found:
        for it in [it for it in found if pattern.fullmatch(it.name)]:
            about = it.stat(follow_symlinks=False)
            is_own = stat.S_ISREG(about.st_mode) and whose in (None, about.st_uid)
            if is_own and about.st_mtime < time.time() - _OLD:
                Path(it.path).unlink(missing_ok=True)


def _check_replaceable(target: Path) -> None:
    with suppress(FileNotFoundError):
        mode = target.stat().st_mode
        if not stat.S_ISREG(mode):
            raise ConfigError("It is not a file, so it was not changed.", path=str(target))
        if not mode & _WRITABLE:
            # A writable folder would let us replace it all the same.
            raise ConfigError("The file is read-only, so it was not changed.", path=str(target))


def _keep_mode(old: Path, new: Path) -> None:
    # The operator may have made the file readable for others, or given it to them.
    found, ours = old.stat(), new.stat()
    if (found.st_uid, found.st_gid) != (ours.st_uid, ours.st_gid) and hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(new, found.st_uid, found.st_gid)
    new.chmod(found.st_mode & 0o777)
