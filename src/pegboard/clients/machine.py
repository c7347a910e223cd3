"""The machine that clients are looked for on."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pegboard.errors import ConfigError

__all__ = ["Machine", "is_file", "is_folder"]


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


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What decides where a client keeps its configuration."""

    platform: str
    """As `sys.platform` has it: ``linux``, ``darwin`` or ``win32``."""
    environ: Mapping[str, str]
    home: Path
    directory: Path
    """Where project files are looked for."""

    def __repr__(self) -> str:
        # The environment holds secrets.
        return f"Machine({self.platform!r}, home={str(self.home)!r})"

    @classmethod
    def here(cls) -> "Machine":
        """Return the machine of this process.

        Raises:
            ConfigError: when the user has no home.
        """
        try:
            home = Path.home()
        except RuntimeError:
            home = None
        if home is None:
            raise ConfigError("Nobody knows your home folder; set the variable HOME.")
        try:
            directory = Path.cwd()
        except OSError:
            # It was deleted meanwhile.
            directory = home
        return cls(platform=sys.platform, environ=dict(os.environ), home=home, directory=directory)

    @property
    def applications(self) -> Path:
        """Where programs keep what belongs to a user."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            named = self.environ.get("APPDATA")
            return Path(named) if named else self.home / "AppData" / "Roaming"
        named = self.environ.get("XDG_CONFIG_HOME")
        return Path(named) if named else self.home / ".config"
