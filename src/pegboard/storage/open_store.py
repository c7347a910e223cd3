"""Open a store by its URL: parse the URL, hide its password, and find the backend or plug-in."""

import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast
from urllib.parse import unquote

import platformdirs

from pegboard.errors import StorageError, StoreUnavailableError
from pegboard.errors.extras import install_extra
from pegboard.storage.encoding import check_tenant
from pegboard.storage.store import Store

__all__ = [
    "DEFAULT_TENANT",
    "calls_place",
    "check_url",
    "default_url",
    "index_place",
    "is_on_this_machine",
    "open_store",
    "path_of",
    "scheme_of",
    "without_password",
]

DEFAULT_TENANT = "default"
ENTRY_POINTS = "pegboard.stores"

Opener = Callable[[str, str], Store]
"""Takes a URL and a tenant."""

_BY_SUFFIX = {".json": "json", ".db": "sqlite", ".sqlite": "sqlite", ".sqlite3": "sqlite"}
_FILES = ("json", "sqlite")
_HOMES = {
    "json": "pegboard.storage.json_file",
    "sqlite": "pegboard.storage.sqlite",
    "postgresql": "pegboard.storage.postgres",
    "postgres": "pegboard.storage.postgres",
}
# At least two letters: `C:` is a disk.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
# Up to the last `@`: a password with unquoted special characters must not show either.
_PASSWORD = re.compile(
    r"^(?P<user>(?:[\w+.-]+:/{0,2}|[\w+.-]*//)?[^/@:?]*):(?!/).*(?=@)"
    r"|(?P<key>password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^&\s]*)",
    re.IGNORECASE | re.DOTALL,
)
_NO_PLACE = {
    errno.ELOOP: "Its symbolic links form a loop. Name the file itself.",
    errno.EACCES: "You may not read its folder. Check the permissions.",
    errno.ENAMETOOLONG: "Its name is too long. Name another file.",
    errno.ENOTDIR: "A part of its path is a file, not a folder. Name another file.",
}


def open_store(url: str | Path | None = None, *, tenant: str = DEFAULT_TENANT) -> Store:
    """Open the store at a URL for one tenant; close it, or use it as a context manager.

    Args:
        url: ``tools.json`` or ``json:///path``, ``sqlite:///path`` or a path that ends in ``.db``,
            ``postgresql://…``, or a scheme that another package provides. The default is
            ``PEGBOARD_STORE``, or else an SQLite file in the user's data directory.
        tenant: whose data to open; no tenant sees the data of another.

    Raises:
        ValueError: when the scheme is unknown.
        StorageError: when the store cannot be opened.
    """
    wanted = default_url() if url is None else os.fspath(url)
    return _opener(scheme_of(wanted), wanted)(wanted, check_tenant(tenant))


def check_url(url: str) -> None:
    """Check without opening the store that a URL names a kind of store that can be opened.

    Raises:
        ValueError: when the scheme is unknown.
        StorageError: when a package that it needs is not installed.
    """
    _opener(scheme_of(url), url)


def default_url() -> str:
    """Return the URL of the store that is used when the caller names none."""
    named = os.environ.get("PEGBOARD_STORE")
    directory = Path(platformdirs.user_data_dir("pegboard", appauthor=False))
    return named or str(directory / "pegboard.db")


def scheme_of(url: str) -> str:
    """Return the kind of store that a URL or path names.

    Raises:
        ValueError: when the URL has no scheme and no known suffix.
    """
    found = _SCHEME.match(url)
    if found is not None:
        return found[1].lower()
    scheme = _BY_SUFFIX.get(Path(url).suffix.lower())
    if scheme is None:
        raise ValueError(
            f"{without_password(url)!r} does not say what kind of store it is. Use a path that "
            "ends in `.json` or `.db`, or a URL such as `sqlite:///path` or `postgresql://…`."
        )
    return scheme


def is_on_this_machine(url: str) -> bool:
    """Tell whether a URL names a store in a file, which replicas on other machines cannot share."""
    return scheme_of(url) in _FILES


def path_of(url: str) -> Path:
    """Return the file that a URL or a plain path names; it need not exist yet.

    Raises:
        StoreUnavailableError: when the path is not a file, or no file can be created there.
    """
    path = _path_in(url)
    try:
        path = path.expanduser()
        problem = _why_no_file(path)
    except (RuntimeError, ValueError):
        problem = "The name or the home folder in it is not valid. Name another file."
    if problem is not None:
        shown = without_password(url)
        raise StoreUnavailableError(
            f"{shown} cannot be used. Nothing was changed. {problem}", url=shown
        )
    return path


def without_password(url: str) -> str:
    """Return a URL with its password hidden, so that it can be shown."""
    return _PASSWORD.sub(_hidden, url)


def index_place(store: Store) -> Path | None:
    """Return the file of a store's search index: beside the store, or in the user's cache.

    A store in memory has none.
    """
    try:
        scheme = scheme_of(store.url)
    except ValueError:
        return None
    if scheme in _FILES:
        path = path_of(store.url).absolute()
        tenant = "" if store.tenant == DEFAULT_TENANT else f".{_digest(store.tenant)}"
        return path.with_name(f"{path.name}{tenant}.search")
    if scheme == "memory":
        return None
    cache = Path(platformdirs.user_cache_dir("pegboard", appauthor=False))
    return cache / f"{_digest(store.url, store.tenant)}.search"


def calls_place(url: str) -> Path | None:
    """Return the folder of the calls that are kept: beside the store, or in the user's data.

    A store in memory has none.

    Raises:
        ValueError: when the URL does not say what kind of store it is.
    """
    scheme = scheme_of(url)
    if scheme in _FILES:
        path = path_of(url).absolute()
        return path.with_name(f"{path.name}.calls")
    if scheme == "memory":
        return None
    data = Path(platformdirs.user_data_dir("pegboard", appauthor=False))
    return data / f"{_digest(without_password(url))}.calls"


def _opener(scheme: str, url: str) -> Opener:
    home = _HOMES.get(scheme)
    return _plugged_in(scheme, url) if home is None else _built_in(home, scheme, url)


def _built_in(home: str, scheme: str, url: str) -> Opener:
    try:
        return cast("Opener", import_module(home).open_url)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("psycopg"):
            raise
        raise StorageError(
            f"A `{scheme}` store needs the package {error.name!r}. Install it with "
            f"`{install_extra('postgres')}`.",
            url=without_password(url),
        ) from error


def _plugged_in(scheme: str, url: str) -> Opener:
    # Imported only here: the import takes longer than opening a store.
    from importlib.metadata import entry_points  # noqa: PLC0415

    for plugin in entry_points(group=ENTRY_POINTS, name=scheme):
        try:
            return plugin.load()
        except (ImportError, AttributeError) as error:
            raise StorageError(
                f"The package that provides `{scheme}:` stores cannot be used: {error}.",
                url=without_password(url),
            ) from error
    known = sorted({*_HOMES, *entry_points(group=ENTRY_POINTS).names})
    raise ValueError(
        f"No installed package opens `{scheme}:` stores (known: {', '.join(known)}). Install a "
        f"package that provides it under the entry point {ENTRY_POINTS!r}."
    )


def _hidden(found: re.Match[str]) -> str:
    return f"{found['key']}***" if found["user"] is None else f"{found['user']}:***"


def _path_in(url: str) -> Path:
    scheme = _SCHEME.match(url)
    if scheme is None:
        return Path(url)
    rest = unquote(url[scheme.end() :]).removeprefix("//")
    # sqlite:///C:/here
    return Path(re.sub(r"^/(?=[A-Za-z]:)", "", rest))


def _why_no_file(path: Path) -> str | None:
    """Return why a store cannot be here: a pipe would block, and a device cannot be replaced."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        # The code that opens the file reports every other error.
        return _NO_PLACE.get(error.errno or 0)
    if stat.S_ISDIR(mode):
        return "It is a folder. Name a file in it."
    return None if stat.S_ISREG(mode) else "It is a pipe or a device. Name a file."


def _digest(*texts: str) -> str:
    whole = "\0".join(texts).encode("utf-8", "backslashreplace")
    return hashlib.blake2b(whole, digest_size=8).hexdigest()
