"""The terminal that a process was started at: when its window is closed, it hangs up."""

import os

__all__ = ["has_terminal"]


def has_terminal() -> bool:
    """Tell whether the process belongs to a terminal that is still there."""
    try:
        # Opened by a process that has none any more, it is no such device.
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
    except (OSError, AttributeError):  # on Windows there is neither the file nor the flags
        return False
    return True
