"""The URL of a store: the file that it names, and how it is shown without its password."""

import errno
import re
import stat
from pathlib import Path
from urllib.parse import unquote

from pegboard.errors import StoreUnavailableError

__all__ = ["SCHEME", "path_of", "without_password"]

# At least two letters: `C:` is a disk.
SCHEME: re.Pattern[str] = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
# Up to the last `@`: what is not quoted as it should be must not show either.
_PASSWORD = re.compile(
    r"^(?P<user>(?:[\w+.-]+:/{0,2}|[\w+.-]*//)?[^/@:?]*):(?!/).*(?=@)"
    r"|(?P<key>password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^&\s]*)",
    re.IGNORECASE | re.DOTALL,
)
_NO_PLACE = {
    errno.ELOOP: "Its links lead back to themselves: name the file itself.",
    errno.EACCES: "You may not look into its folder: see to the permissions.",
    errno.ENAMETOOLONG: "Its name is too long: name another file.",
    errno.ENOTDIR: "A part of its path is a file, not a folder: name another file.",
}


def path_of(url: str) -> Path:
    """Return the file that a URL or a plain path names; it need not be there yet.

    Raises:
        StoreUnavailableError: when something else is there, or nothing can be.
    """
    path = _path_in(url)
    try:
        path = path.expanduser()
        problem = _why_no_file(path)
    except (RuntimeError, ValueError):
        problem = "No such home or name is possible: name another file."
    if problem is not None:
        shown = without_password(url)
        raise StoreUnavailableError(
            f"{shown} cannot be used. Nothing was changed. {problem}", url=shown
        )
    return path


def without_password(url: str) -> str:
    """Return a URL that can be shown."""
    return _PASSWORD.sub(_hidden, url)


def _hidden(found: re.Match[str]) -> str:
    return f"{found['key']}***" if found["user"] is None else f"{found['user']}:***"


def _path_in(url: str) -> Path:
    scheme = SCHEME.match(url)
    if scheme is None:
        return Path(url)
    rest = unquote(url[scheme.end() :]).removeprefix("//")
    # sqlite:///C:/here
    return Path(re.sub(r"^/(?=[A-Za-z]:)", "", rest))


def _why_no_file(path: Path) -> str | None:
    """Return why no file can be here: a pipe would never answer, and a device is not replaced."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        # The code that opens the file reports all else.
        return _NO_PLACE.get(error.errno or 0)
    if stat.S_ISDIR(mode):
        return "It is a folder: name a file in it."
    return None if stat.S_ISREG(mode) else "It is no file, but a pipe or a device: name a file."
