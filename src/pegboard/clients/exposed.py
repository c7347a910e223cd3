"""Files of clients in which other users of the machine can read secrets."""

import os
from collections.abc import Iterable
from pathlib import Path

from pegboard.clients.found_servers import ClientFile, servers_in
from pegboard.config.secrets.plain_secrets import plain_secrets
from pegboard.errors import ConfigError

__all__ = ["exposed_files", "is_exposed"]

_OTHERS_READ, _OTHERS_PASS = 0o044, 0o011


def is_exposed(path: Path) -> bool:
    """Tell whether others than its owner can read a file; modes say so on POSIX only."""
    try:
        whole, home = path.resolve(), Path.home().resolve()
        # Whoever keeps others out does so at the home, or below it.
        folders = [it for it in whole.parents if it.is_relative_to(home)]
        return (
            os.name == "posix"
            and bool(whole.stat().st_mode & _OTHERS_READ)
            and all(it.stat().st_mode & _OTHERS_PASS for it in folders)
        )
    except (OSError, RuntimeError):
        return False


def exposed_files(files: Iterable[ClientFile]) -> list[Path]:
    """Return those that hold a secret in plain text, and that others can read."""
    return [it.path for it in files if is_exposed(it.path) and _has_secrets(it)]


def _has_secrets(file: ClientFile) -> bool:
    try:
        servers = servers_in(file)
    except ConfigError:
        # Whoever uses it says so.
        return False
    return any(any(plain_secrets(it.name, it.entry)) for it in servers if it.entry is not None)
