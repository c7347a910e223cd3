"""Made files: which files with a name of the user's choice Pegboard made, for `pegboard uninstall`.

Most of what Pegboard keeps is known by its name. The configuration and the files of secrets are
not: a person may write files of the same names, and these must stay.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from platformdirs import user_state_path

from pegboard.config.atomic_write import make_folder

__all__ = ["made_files", "made_list", "note_made"]


def note_made(path: Path) -> None:
    """Write down that Pegboard makes this file. Call it before the file is written."""
    place = made_list()
    # A file that is not on the list stays when Pegboard is uninstalled; no reason not to write it.
    with suppress(OSError):
        make_folder(place.parent)
        handle = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "ab") as file:
            # One line and one write: commands may do this at the same time.
            file.write(json.dumps(str(path.absolute())).encode() + b"\n")


def made_files() -> frozenset[Path]:
    """Return the files that were noted; they may be gone by now."""
    found: set[Path] = set()
    with suppress(OSError):
        for line in made_list().read_bytes().splitlines():
            # A line may be cut short by a full disk.
            with suppress(ValueError, TypeError):
                found.add(Path(json.loads(line)))
    return frozenset(found)


def made_list() -> Path:
    """Return the file with the list."""
    return user_state_path("pegboard", appauthor=False) / "made-files"
