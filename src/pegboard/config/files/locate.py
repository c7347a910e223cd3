"""Locate the configuration file: the search order, and the file that was chosen."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from platformdirs import user_config_path

from pegboard.errors import ConfigError

__all__ = [
    "ConfigCandidate",
    "Location",
    "Origin",
    "candidates",
    "locate_config",
    "places_looked_in",
    "user_config_file",
]

Origin = Literal["explicit", "PEGBOARD_CONFIG", "project", "user", "none"]
"""Which rule of the search order chose the file."""

VARIABLE = "PEGBOARD_CONFIG"
PROJECT_FILES = ("mcp.json", ".pegboard/mcp.json")
ABSENT = "does not exist"
NO_FILE = "is a pipe or a device, but must be a file that can be read again"
_JSON = re.compile(r"^\s*[{\[]|\n")


class Location(msgspec.Struct, frozen=True):
    """The file that was chosen, and those that exist but are not read."""

    path: Path | None
    origin: Origin
    others: tuple[Path, ...] = ()

    def __str__(self) -> str:
        if self.path is None:
            return "No configuration file was found."
        told = f"{self.path} ({_WHY[self.origin]})"
        return f"{told}; not read: {', '.join(map(str, self.others))}" if self.others else told


class ConfigCandidate(NamedTuple):
    """A path where a file is searched for."""

    path: Path
    fault: str | None
    """Why no file is read there, such as ``does not exist``; ``None`` when there is a file."""
    origin: Origin


_WHY: dict[Origin, str] = {
    "explicit": "named explicitly",
    "PEGBOARD_CONFIG": f"named by {VARIABLE}",
    "project": "found in the current directory",
    "user": "found in the user's configuration directory",
}


def locate_config(
    source: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    directory: str | os.PathLike[str] = ".",
) -> Location:
    """Find the file: the explicit one, then ``PEGBOARD_CONFIG``, the project's, the user's.

    Raises:
        ConfigError: when the explicit path or ``PEGBOARD_CONFIG`` does not name a file.
    """
    candidates = _candidates(source, os.environ if environ is None else environ, Path(directory))
    found: dict[Path, Origin] = {}
    for given, origin in candidates:
        path, fault = _look(given)
        if fault is None:
            found.setdefault(path, origin)
        elif origin in ("explicit", VARIABLE) and not found:
            raise _refusal(given, origin, path=path, fault=fault)
    if not found:
        return Location(None, "none")
    path, *others = found
    return Location(path, found[path], tuple(others))


def candidates(
    source: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    directory: str | os.PathLike[str] = ".",
) -> list[ConfigCandidate]:
    """Return every path where a file is searched for, in that order, whether or not it exists."""
    places = _candidates(source, os.environ if environ is None else environ, Path(directory))
    return [ConfigCandidate(*_look(given), origin) for given, origin in places]


def user_config_file() -> Path:
    """Return the path of the user's own file, whether or not it exists."""
    return user_config_path("pegboard", appauthor=False) / "mcp.json"


def places_looked_in() -> list[str]:
    """Return in words where a file is searched for when none is named."""
    places = [str(_look(given)[0]) for given, _ in _candidates(None, {}, Path())]
    return [f"the variable {VARIABLE}", *places]


def _candidates(
    source: str | os.PathLike[str] | None, environ: Mapping[str, str], directory: Path
) -> Iterator[tuple[Path, Origin]]:
    if source is not None:
        yield Path(source), "explicit"
    named = environ.get(VARIABLE)
    if named:
        yield Path(named), VARIABLE
    for name in PROJECT_FILES:
        yield directory / name, "project"
    yield user_config_file(), "user"


def _look(given: Path) -> tuple[Path, str | None]:
    """Return the whole path, and what is wrong with it if it leads to no file."""
    path = given
    try:
        path = given.expanduser().absolute()
        if path.is_file():
            return path, None
        if path.is_dir():
            return path, "is a directory; name the file in it"
        if path.exists():
            return path, NO_FILE
    except OSError as error:
        return path, f"cannot be read: {error.strerror}"
    except RuntimeError:
        return path, "is in the home folder of a user that this machine does not know"
    return path, ABSENT


def _refusal(given: Path, origin: Origin, *, path: Path, fault: str) -> ConfigError:
    if _JSON.search(str(given)):
        # The value is not quoted: it may contain secrets.
        what = VARIABLE if origin == VARIABLE else "The path of the configuration file"
        return ConfigError(
            f"{what} looks like JSON, but must be a path. Write the JSON to a file, or pass it as "
            "a dict."
        )
    by = f", which {VARIABLE} names," if origin == VARIABLE else ""
    is_missing = fault == ABSENT
    return ConfigError(
        f"The configuration file{by} {fault}.", path=str(path), is_missing=is_missing
    )
