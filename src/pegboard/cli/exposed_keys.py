"""A word about files with secrets that others can read."""

from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from pegboard.cli.output import warn

__all__ = ["warn_of_exposed"]


def warn_of_exposed(paths: Iterable[Path]) -> None:
    """Say that other users can read secrets in these files, and how to change that."""
    for path in dict.fromkeys(paths):
        warn(
            f"warning: {path} has secrets in plain text, and other users of this machine may read "
            f"it: `chmod 600 {quote(str(path))}`."
        )
