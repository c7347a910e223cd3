"""Atomic write of a whole file: a temporary file, fsync, rename, fsync of the folder."""

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

Signature = tuple[int, int, int] | None
"""Of a file: its inode, when it was written and its size; ``None`` when there is none."""
_FLAGS: int = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@contextmanager
def new_file(
    path: Path, chunks: Iterable[bytes], *, keeps_mode: bool = True
) -> Generator[Callable[[], Signature]]:
    """Write the next content of a file to the disk, and give what puts it in place.

    Mode and owner stay those of the file, unless ``keeps_mode`` is false: then only the owner can
    read it. After putting it in place, `sync_folder` makes that last.
    """
    # A link stays one, and the file that it leads to is replaced.
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{token_hex(4)}.tmp")
    handle = os.open(temporary, _FLAGS, 0o600)
    try:
        try:
            if keeps_mode:
                with suppress(FileNotFoundError):
                    _keep_mode(target, temporary)
            for chunk in chunks:
                write_all(handle, chunk)
            os.fsync(handle)
            found = signature(os.fstat(handle))
        finally:
            os.close(handle)

        def put_in_place() -> Signature:
            temporary.replace(target)
            return found

        yield put_in_place
    finally:
        with suppress(OSError):
            temporary.unlink()


def replace_file(path: Path, chunks: Iterable[bytes], *, keeps_mode: bool = True) -> None:
    """Put new content under a path, see `new_file`; `sync_folder` makes it last.

    Raises:
        OSError: when that is not possible; then the old content is still there.
    """
    with new_file(path, chunks, keeps_mode=keeps_mode) as put_in_place:
        put_in_place()


def set_aside(path: Path, content: bytes) -> Path:
    """Keep damaged content beside a file, under a name that says so, and return that."""
    kept = free_name(path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"))
    replace_file(kept, [content])
    return kept


def free_name(path: Path) -> Path:
    """Return a path, with a number if there is something already."""
    free, number = path, 1
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free


def tidy_up(path: Path) -> None:
    """Remove the temporary files of dead processes that were replacing a file.

    The caller has the lock that every process takes to replace the file.
    """
    start = f".{path.name}."
    for found in path.parent.iterdir():
        if found.name.startswith(start) and found.suffix == ".tmp":
            with suppress(OSError):
                found.unlink()


def signature(found: os.stat_result) -> Signature:
    """Return what changes whenever a file does."""
    return found.st_ino, found.st_mtime_ns, found.st_size


def signature_of(path: Path) -> Signature:
    """Return the signature of a file."""
    try:
        return signature(os.stat(path))  # noqa: PTH116 - faster
    except FileNotFoundError:
        return None


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


def write_all(handle: int, data: bytes) -> None:
    """Write to an open file, however many attempts that takes."""
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, data[written:])


def _keep_mode(old: Path, new: Path) -> None:
    # The operator may have made the file readable for others, or given it to them.
    found, ours = old.stat(), new.stat()
    if (found.st_uid, found.st_gid) != (ours.st_uid, ours.st_gid):
        with suppress(OSError):
            os.chown(new, found.st_uid, found.st_gid)
    new.chmod(found.st_mode & 0o777)
