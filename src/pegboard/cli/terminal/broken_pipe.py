"""Standard streams that are closed, broken pipes, or full: keep the process from failing."""

import os
import sys
from errno import EBADF, EFBIG, EIO, ENOSPC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["fill_gaps", "lost_output"]

_OUTPUT = 1
_TAKES_NO_MORE = (EBADF, EFBIG, EIO, ENOSPC)


def fill_gaps() -> None:
    """Let streams that are closed lead nowhere; else the next files that are opened are these.

    Only a result must not get lost unseen: what is written to a closed output is an error.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: this one.
            os.open(os.devnull, os.O_RDONLY if number == _OUTPUT else os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def lost_output(stream: "TextIO", error: OSError | None = None) -> OSError | None:
    """Write what waits to be written, and return why that is not possible, if it is not.

    Then it goes nowhere from now on, or the interpreter would complain once more at the end.

    Args:
        stream: of this process.
        error: what just happened, perhaps to this stream.
    """
    lost = error if _is_of_a_stream(error) else None
    try:
        stream.flush()
    except OSError as failure:
        lost = failure
    if lost is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    return lost


def _is_of_a_stream(error: OSError | None) -> bool:
    # Where nothing waits to be written (`python -u`, or much at once), only the error itself tells.
    return error is not None and error.errno in _TAKES_NO_MORE and error.filename is None
