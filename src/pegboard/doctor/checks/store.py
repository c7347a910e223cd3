"""Check the store: whether it can be opened and read, or created if it does not exist."""

import os
from pathlib import Path

from pegboard.doctor.report import Finding, found, shown
from pegboard.errors import PegboardError
from pegboard.storage import open_store
from pegboard.storage.open_store import path_of, scheme_of, without_password

__all__ = ["check_store"]


def check_store(url: str) -> list[Finding]:
    """Return a finding if a store cannot be used. Blocking.

    The store is opened as any other command would open it. A store that does not exist is not
    created.
    """
    try:
        path = path_of(url) if scheme_of(url) in ("json", "sqlite") else None
        if path is not None and not path.exists():
            return [] if _can_be_created(path) else [_unusable(url, "it cannot be created there.")]
        with open_store(url) as store:
            store.namespace("servers").get("none")
    except (PegboardError, ValueError, ImportError, OSError) as error:
        return [_unusable(url, str(error))]
    return []


def _can_be_created(path: Path) -> bool:
    # On Windows no parent may exist: the drive may be missing.
    there = next((it for it in path.absolute().parents if it.exists()), None)
    return there is not None and there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _unusable(url: str, words: str) -> Finding:
    where = without_password(url)
    return found(
        "store_unusable",
        f"The store {where} cannot be used: {shown(words.replace(url, where))}",
        f"Run `pegboard store check --store {where}` for details, or choose another store with "
        "`--store` or PEGBOARD_STORE.",
    )
