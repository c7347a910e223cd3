"""What the operating system refuses, in our words."""

import errno

from pegboard.errors import StoreUnavailableError

__all__ = ["READ_ONLY", "unavailable"]

READ_ONLY: frozenset[int] = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Make room on the disk."),
    **dict.fromkeys(READ_ONLY, "Make the folder and the file writable."),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.ESTALE), "See that the folder is there."),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Close other files, or allow more of them."),
    errno.EISDIR: "It is a folder: name a file in it.",
    **dict.fromkeys((errno.EAGAIN, errno.EBUSY), "See who else uses it."),
}


def unavailable(error: OSError, url: str) -> StoreUnavailableError:
    """Return our error for one of the operating system."""
    advice = _ADVICE.get(error.errno or 0, "See that the disk is sound.")
    reason = error.strerror or str(error)
    return StoreUnavailableError(f"{url} cannot be used: {reason}. {advice}", url=url)
