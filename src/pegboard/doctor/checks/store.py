"""Check the store and the folders of Pegboard: usable, and closed to other users."""

import os
import shlex
import stat
import sys
from pathlib import Path

import msgspec
import platformdirs

from pegboard.doctor.report import Finding, found, shown
from pegboard.errors import PegboardError
from pegboard.storage import open_store
from pegboard.storage.open_store import path_of, scheme_of, without_password

__all__ = ["check_folders", "check_store"]

_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


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


def check_folders() -> list[Finding]:
    """Return a finding for each folder of Pegboard that other users can enter. Blocking.

    The folders hold keys, tokens, the catalogs of servers and the address of a running gateway.
    """
    if sys.platform == "win32":
        return []
    findings: list[Finding] = []
    kinds = (platformdirs.user_state_dir, platformdirs.user_data_dir, platformdirs.user_cache_dir)
    places = [kind("pegboard", appauthor=False) for kind in kinds]
    for place in dict.fromkeys(places):
        try:
            mode = stat.S_IMODE(Path(place).stat().st_mode)
        except OSError:
            continue
        # Others may pass through, as the home folders of many systems let them, but not look.
        if mode & _FOR_OTHERS & ~(stat.S_IXGRP | stat.S_IXOTH):
            finding = found(
                "readable_by_others",
                f"Other users of this machine can look into {place!r} (mode {mode:o}).",
                f"Run `chmod -R go= {shlex.quote(place)}`.",
            )
            findings.append(msgspec.structs.replace(finding, place=place))
    return findings


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
