"""Maintenance of an existing store: open it without creating one, find its files, recover it."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from pegboard.errors import StorageError
from pegboard.storage.json_file.paths import paths_of
from pegboard.storage.json_file.recovery import recover as recover_json
from pegboard.storage.open_store import (
    DEFAULT_TENANT,
    open_store,
    path_of,
    scheme_of,
    without_password,
)
from pegboard.storage.sqlite.file import RECOVERING, SIDE_FILES
from pegboard.storage.sqlite.recovery import recover as recover_sqlite
from pegboard.storage.store import Recovered, Store

__all__ = ["files_of", "is_file_of", "is_same_store", "open_existing", "recover_store"]


class _TenantFile(msgspec.Struct):
    tenant: str | None = None


_RECOVERIES: dict[str, Callable[[Path], Recovered]] = {
    "json": recover_json,
    "sqlite": recover_sqlite,
}


def open_existing(url: str, *, tenant: str = DEFAULT_TENANT) -> Store | None:
    """Open a store, or return ``None`` if it does not exist: a wrong name creates no store.

    Raises:
        ValueError: when the scheme is unknown.
        StorageError: when the store cannot be opened.
    """
    files = files_of(url, tenant=tenant)
    return open_store(url, tenant=tenant) if files is None or files else None


def files_of(url: str, *, tenant: str = DEFAULT_TENANT) -> list[Path] | None:
    """Return the files that hold a tenant's data, or ``None`` for a store without files.

    Raises:
        ValueError: when the URL does not say what kind of store it is.
    """
    scheme = scheme_of(url)
    if scheme == "json":
        files = list(paths_of(path_of(url), None if tenant == DEFAULT_TENANT else tenant))
    elif scheme == "sqlite":
        files = [path_of(url)]
    else:
        return None
    return [it for it in files if it.exists() and it.stat().st_size]


def is_file_of(url: str, path: Path) -> bool:
    """Tell whether a path is that of a store's file, of any tenant, or one beside it.

    Raises:
        ValueError: when the URL does not say what kind of store it is.
    """
    scheme, path = scheme_of(url), path.resolve()
    if scheme == "sqlite":
        store = path_of(url).resolve()
        return path.parent == store.parent and path.name in {
            f"{store.name}{it}" for it in ("", RECOVERING, *SIDE_FILES)
        }
    if scheme != "json":
        return False
    own = paths_of(path_of(url))
    if path in own:
        return True
    # Of a tenant: its name is in the file, unless the file is damaged.
    name = path.name.removesuffix(".journal")
    is_beside = path.parent == own.folder and name.startswith(f"{own.tools.stem}.")
    if not is_beside or not name.endswith(own.tools.suffix) or not path.is_file():
        return False
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_TenantFile)
    except (OSError, ValueError, RecursionError):
        return True
    return found.tenant is not None and path in paths_of(own.tools, found.tenant)


def is_same_store(one: str, other: str) -> bool:
    """Tell whether two URLs name the same store, as far as the URLs show it."""
    return _place(one) == _place(other)


def recover_store(url: str) -> Recovered:
    """Rescue what can be read of a damaged file, and move the file itself aside.

    Raises:
        ValueError: when the scheme is unknown.
        StorageError: when the store is not a file, or the file does not exist.
    """
    recovery = _RECOVERIES.get(scheme_of(url))
    if recovery is None:
        raise StorageError(
            "Pegboard recovers only files. Restore a database from its backup.",
            url=without_password(url),
        )
    return recovery(path_of(url))


def _place(url: str) -> tuple[str, object]:
    scheme = scheme_of(url)
    return scheme, path_of(url).resolve() if scheme in _RECOVERIES else url
