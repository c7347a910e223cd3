"""What Pegboard keeps: whether the store can be opened and read."""

import os
from pathlib import Path

from pegboard.doctor.report import Finding, found, shown
from pegboard.errors import PegboardError
from pegboard.storage import open_store
from pegboard.storage.open_store import path_of, scheme_of, without_password

__all__ = ["look_at_store"]


def look_at_store(url: str) -> list[Finding]:
    """Return why a store cannot be used, if it cannot; one that is not there is not made. Blocking.

    It is opened as any other command would open it.
    """
    try:
        path = path_of(url) if scheme_of(url) in ("json", "sqlite") else None
        if path is not None and not path.exists():
            return [] if _can_be_made(path) else [_unusable(url, "it cannot be made there.")]
        with open_store(url) as store:
            store.namespace("servers").get("none")
    except (PegboardError, ValueError, ImportError, OSError) as error:
        return [_unusable(url, str(error))]
    return []


def _can_be_made(path: Path) -> bool:
    # On Windows there may be none: a drive that is not there.
    there = next((it for it in path.absolute().parents if it.exists()), None)
    return there is not None and there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _unusable(url: str, words: str) -> Finding:
    where = without_password(url)
    return found(
        "store_unusable",
        f"What Pegboard keeps in {where} cannot be used: {shown(words.replace(url, where))}",
        f"`pegboard store check --store {where}` says more; `--store` or PEGBOARD_STORE choose "
        "another place.",
    )
