"""What the operating system refuses, in our words."""

import errno
import shlex

from pegboard.errors import StoreUnavailableError

__all__ = ["READ_ONLY", "FileGoneError", "unavailable"]

READ_ONLY: frozenset[int] = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Make room on the disk."),
    **dict.fromkeys(READ_ONLY, "Make the folder and the file writable."),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.ESTALE), "See that the folder is there."),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Close other files, or allow more of them."),
    errno.EISDIR: "It is a folder: name a file in it.",
    **dict.fromkeys((errno.EAGAIN, errno.EBUSY), "See who else uses it."),
}


class FileGoneError(StoreUnavailableError):
    """The file with the tools was there, and is not any more."""

    def __init__(self, path: str, *, journal: str | None) -> None:
        """Say what to do; ``journal`` is the one that says something, if there is one."""
        begin = "close what has it open, and begin anew"
        if journal is not None:
            command = f"pegboard store recover --store {shlex.quote(path)}"
            begin = f"begin anew with what {journal} says: `{command}`"
        super().__init__(f"{path} is gone. Put it back, or {begin}.", url=path)


def unavailable(error: OSError, url: str) -> StoreUnavailableError:
    """Return our error for one of the operating system."""
    advice = _ADVICE.get(error.errno or 0, "See that the disk is sound.")
    reason = error.strerror or str(error)
    return StoreUnavailableError(f"{url} cannot be used: {reason}. {advice}", url=url)
