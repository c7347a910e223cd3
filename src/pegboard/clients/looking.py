"""Looking for files where a folder may not be looked into: what cannot be seen is not there."""

from pathlib import Path

__all__ = ["is_file", "is_folder"]


def is_file(path: Path) -> bool:
    """Tell whether there is a file."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Tell whether there is a folder."""
    try:
        return path.is_dir()
    except OSError:
        return False
