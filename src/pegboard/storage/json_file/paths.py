"""Paths of a tenant's JSON files, their signatures, and the errors when one cannot be used."""

import errno
import hashlib
import os
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pegboard.config.atomic_write import replace_file
from pegboard.errors import StoreUnavailableError

__all__ = [
    "READ_ONLY",
    "FileGoneError",
    "JsonPaths",
    "Signature",
    "Signatures",
    "keep_copy",
    "paths_of",
    "set_aside",
    "signature_of",
    "unavailable",
]

Signature = tuple[int, int, int] | None
"""Of a file: its inode, when it was written and its size; ``None`` when there is none."""
Signatures = tuple[Signature, Signature]
"""Of the file with the tools and of the one with the state."""
READ_ONLY: frozenset[int] = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
MAX_QUOTED = 120
# No capitals: some file systems take `A` and `a` for the same. No dots: no tenant can have the
# name of another's state.
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Make room on the disk."),
    **dict.fromkeys(READ_ONLY, "Make the folder and the file writable."),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.ESTALE), "See that the folder is there."),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Close other files, or allow more of them."),
    errno.EISDIR: "It is a folder: name a file in it.",
    **dict.fromkeys((errno.EAGAIN, errno.EBUSY), "See who else uses it."),
}


class JsonPaths(NamedTuple):
    """The files of one tenant; at rest there are only the first two."""

    tools: Path
    state: Path
    """Values of the namespaces, and usage of tools that are not in the file with the tools."""
    journal: Path
    """What was written since the two were; also the file that processes lock."""

    @property
    def folder(self) -> Path:
        """The folder of all of them."""
        return self.tools.parent

    def signatures(self) -> Signatures:
        """Return the signatures of the first two as they are now."""
        return signature_of(self.tools), signature_of(self.state)


class FileGoneError(StoreUnavailableError):
    """The file with the tools was there, and is not any more."""

    def __init__(self, path: str, *, journal: str | None) -> None:
        """Say what to do; ``journal`` is the path of one that holds changes, if there is one."""
        begin = "close what has it open, and begin anew"
        if journal is not None:
            command = f"pegboard store recover --store {shlex.quote(path)}"
            begin = f"begin anew with what {journal} says: `{command}`"
        super().__init__(f"{path} is gone. Put it back, or {begin}.", url=path)


def paths_of(path: Path, tenant: str | None = None) -> JsonPaths:
    """Return the files of a tenant; ``None`` is the default tenant, which has the file itself."""
    # Through a link, or a rename would replace the link and leave the file behind.
    path = path.resolve()
    if tenant is not None:
        path = path.with_name(f"{path.stem}.{_quoted(tenant)}{path.suffix}")
    return JsonPaths(
        tools=path,
        state=path.with_name(f"{path.stem}.state{path.suffix}"),
        journal=path.with_name(f"{path.name}.journal"),
    )


def signature_of(file: Path | int) -> Signature:
    """Return what changes whenever a file, or an open one, does."""
    try:
        found = os.stat(file)  # noqa: PTH116 - faster
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def set_aside(path: Path, content: bytes) -> Path:
    """Keep damaged content beside a file, under a name that says so, and return that."""
    return keep_copy(path, f"damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}", content)


def keep_copy(path: Path, mark: str, content: bytes) -> Path:
    """Keep content beside a file, under its name with a mark, and return that."""
    base = kept = path.with_name(f"{path.name}.{mark}")
    number = 1
    while kept.exists():
        if kept.read_bytes() == content:
            return kept
        number += 1
        kept = path.with_name(f"{base.name}.{number}")
    replace_file(kept, content)
    return kept


def unavailable(error: OSError, url: str) -> StoreUnavailableError:
    """Return our error for one of the operating system."""
    advice = _ADVICE.get(error.errno or 0, "See that the disk is sound.")
    reason = error.strerror or str(error)
    return StoreUnavailableError(f"{url} cannot be used: {reason}. {advice}", url=url)


def _quoted(tenant: str) -> str:
    if tenant == "state":
        return "%73tate"
    quoted = "".join(chr(it) if it in _PLAIN else f"%{it:02x}" for it in tenant.encode())
    if len(quoted) <= MAX_QUOTED:
        return quoted
    # No quoted name begins like that.
    return f"~{hashlib.sha256(tenant.encode()).hexdigest()}"
