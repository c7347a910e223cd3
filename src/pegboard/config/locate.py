"""Where the configuration file is: the search order, and which file won."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from platformdirs import user_config_path

from pegboard.errors import ConfigError

__all__ = ["Location", "Origin", "locate_config", "user_config_file"]

Origin = Literal["explicit", "PEGBOARD_CONFIG", "project", "user", "none"]
"""Which rule of the search order chose the file."""

VARIABLE = "PEGBOARD_CONFIG"
PROJECT_FILES = ("mcp.json", ".pegboard/mcp.json")


class Location(msgspec.Struct, frozen=True):
    """The file that won, and those that exist but were not asked."""

    path: Path | None
    origin: Origin
    others: tuple[Path, ...] = ()

    def __str__(self) -> str:
        if self.path is None:
            return "No configuration file was found."
        told = f"{self.path} ({_WHY[self.origin]})"
        return f"{told}; not read: {', '.join(map(str, self.others))}" if self.others else told


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
    """Find the file: explicit, then ``PEGBOARD_CONFIG``, the project's, the user's.

    Raises:
        ConfigError: when a file is named that does not exist.
    """
    candidates = _candidates(source, os.environ if environ is None else environ, Path(directory))
    found: dict[Path, Origin] = {}
    for path, origin in candidates:
        if path.is_file():
            found.setdefault(path, origin)
        elif origin in ("explicit", VARIABLE) and not found:
            by = f", which {VARIABLE} names," if origin == VARIABLE else ""
            raise ConfigError(f"The configuration file{by} does not exist.", path=str(path))
    if not found:
        return Location(None, "none")
    path, *others = found
    return Location(path, found[path], tuple(others))


def user_config_file() -> Path:
    """Return where the user's own file is, whether or not it exists."""
    return user_config_path("pegboard", appauthor=False) / "mcp.json"


def _candidates(
    source: str | os.PathLike[str] | None, environ: Mapping[str, str], directory: Path
) -> Iterator[tuple[Path, Origin]]:
    if source is not None:
        yield Path(source).expanduser().absolute(), "explicit"
    named = environ.get(VARIABLE)
    if named:
        yield Path(named).expanduser().absolute(), VARIABLE
    for name in PROJECT_FILES:
        yield (directory / name).absolute(), "project"
    yield user_config_file(), "user"
