"""`pegboard store`: inspect, check, recover, migrate, export and import a store."""

import stat
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from pegboard.cli.catalogue.running_gateway import store_meant
from pegboard.cli.entry.error_messages import values_checked
from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.terminal.output import complain, progress, say, warn, write_json
from pegboard.cli.terminal.plain_text import columns_of, counted, printable
from pegboard.cli.terminal.spinner import waiting
from pegboard.config.atomic_write import read_named_file, replace_file
from pegboard.errors import StorageError
from pegboard.errors.root import shorten
from pegboard.model.principal import DEFAULT_TENANT, OPERATOR
from pegboard.storage import Copied, OnProgress, Store, copy_store, decode_tool, open_store
from pegboard.storage.export_import import Archive, archived, read_archive, restore
from pegboard.storage.maintenance import (
    files_of,
    is_file_of,
    is_same_store,
    open_existing,
    recover_store,
)
from pegboard.storage.open_store import scheme_of, without_password
from pegboard.storage.registrytools import written_data
from pegboard.storage.registrytools_import import RegistryToolsData, read_data, take_over

__all__ = ["add_to"]

_store = typer.Typer(
    help="Inspect and maintain the store of tools, usage, keys and cached server catalogs.",
    no_args_is_help=True,
)

_Store = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", help="Store (default: PEGBOARD_STORE, or your own store)."
    ),
]
_Tenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Tenant of the data.")]
_Tenants = Annotated[
    list[str] | None,
    typer.Option(
        "--tenant",
        metavar="NAME",
        help="Tenant of the data. Can be repeated (default: the default tenant, those with API "
        "keys, and the keys themselves).",
    ),
]
_NAMESPACES = {
    "buckets": "how much of each rate limit is used up",
    "calls": "the latest calls, one by one",
    "failed-starts": "servers that did not start when a command needed them",
    "leases": "jobs that only one process does at a time",
    "servers": "the catalog of each server",
    "servers-used": "the day on which each catalog was used",
}
"""What is in the namespaces whose names do not say it."""
_MOST_NAMED = 5
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(root: typer.Typer) -> None:
    """Add the commands to an application."""
    root.add_typer(_store, name="store")


@_store.command()
def info(*, store: _Store = None, tenant: _Tenant = DEFAULT_TENANT, json: _Json = False) -> None:
    """Show what a store contains."""
    url = store_meant(store)
    with _existing(url, tenant) as opened, waiting("Reading the store"):
        found = store_as_json(opened, url)
    if json:
        write_json(found)
        return
    values: dict[str, int] = found.pop("values")
    shown = [(name, _shown(value)) for name, value in found.items() if value is not None]
    for line in columns_of(shown, "<<"):
        say(line)
    if values:
        say("other values, by namespace:")
    listed = [(name, _shown(count), _NAMESPACES.get(name, "")) for name, count in values.items()]
    for line in columns_of(listed, "<><"):
        say(f"  {line}")


@_store.command()
def check(*, store: _Store = None, tenant: _Tenant = DEFAULT_TENANT) -> None:
    """Read everything in a store, and report where it is damaged."""
    with _existing(store_meant(store), tenant) as opened:
        with waiting("Reading the store"):
            opened.check()
            tools = counted(len(opened.load_all()), "tool")
        say(f"{opened.url} is sound: {tools}.")


@_store.command()
def recover(*, store: _Store = None) -> None:
    """Recover what can be read of a damaged store, and set the damaged file aside."""
    url = store_meant(store)
    with values_checked(), waiting("Reading the store"):
        recovered = recover_store(url)
    if recovered.saved_as is None:
        say("Nothing is damaged, and nothing was changed.")
        return
    for sentence in recovered.lost:
        say(f"lost: {sentence}")
    kept = counted(len(recovered.kept), "tool")
    say(f"Kept {kept}. The damaged file is now {recovered.saved_as}.")


@_store.command()
def migrate(
    *,
    target: Annotated[str, typer.Argument(metavar="URL", help="Target store, of any kind.")],
    store: _Store = None,
    tenant: _Tenants = None,
) -> None:
    """Copy everything to another store of any kind; entries there with other names stay.

    The source store is not changed, and may be in use. A file of an older Pegboard needs no
    migration: Pegboard converts it at the next write.
    """
    source = store_meant(store)
    with values_checked():
        if is_same_store(source, target):
            raise ValueError("Source and target are the same store: name another target.")
    for opened in _each(source, tenant):
        with values_checked():
            opening = open_store(target, tenant=opened.tenant)
        with opening as other, _shown_progress() as shown:
            copied = copy_store(opened, other, on_progress=shown)
        _tell(copied, opened.tenant, f"to {without_password(target)}")


@_store.command("export")
def export_store(
    *,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="File to write; - is standard output.")
    ],
    store: _Store = None,
    tenant: _Tenants = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    form: Annotated[
        Literal["pegboard", "registrytools"],
        typer.Option(
            "--format",
            help="`registrytools` writes only the registered tools and their usage, for "
            "RegistryTools: a database if the name of the file ends in .db, or else JSON.",
        ),
    ] = "pegboard",
) -> None:
    """Write everything to one JSON file that only you can read."""
    path = Path(file).expanduser()
    mode = None if file == "-" else _mode_of(path, file)
    if mode is not None and not stat.S_ISREG(mode):
        raise typer.BadParameter(f"{file} is a folder, a pipe or a device: name a file.")
    if mode is not None and not force:
        problem = f"{file} already exists: name another file, or add `--force`."
        raise typer.BadParameter(problem)
    url = store_meant(store)
    if file != "-":
        _refuse_itself(file, url)
    if form == "registrytools":
        content, told = _for_registrytools(url, tenant, file)
    else:
        with waiting("Reading the store"):
            archive = archived(_each(url, tenant))
            content = msgspec.json.format(msgspec.json.encode(archive), indent=1) + b"\n"
        tools = counted(sum(len(it.tools) for it in archive.tenants), "tool")
        told = f"{tools} and all other data of {', '.join(it.tenant for it in archive.tenants)}"
    if file == "-":
        sys.stdout.write(content.decode())
        return
    try:
        replace_file(path, content, keeps_mode=False)
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror}.", url=file) from error
    say(f"Wrote {told} to {file}.")


@_store.command("import")
def import_archive(
    *,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="File from `export`, or tools.json or tools.db of RegistryTools; - is input.",
        ),
    ],
    store: _Store = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="NAME", help="Tenant that gets RegistryTools's tools."),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace tools of the same name by RegistryTools's."),
    ] = False,
) -> None:
    """Load a file from `export`, or one of RegistryTools, into a store.

    An export replaces entries of the same names. The tools of RegistryTools replace none, unless
    you add `--replace`. All other entries stay.
    """
    path = Path(file).expanduser()
    mode = None if file == "-" else _mode_of(path, file)
    if mode is not None and stat.S_ISDIR(mode):
        raise typer.BadParameter(f"{file} is a folder: name a file in it, such as tools.json.")
    if mode is not None and (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
        raise typer.BadParameter(f"{file} is a device: name a file.")
    try:
        text = sys.stdin.buffer.read() if file == "-" else read_named_file(path)
    except OSError as error:
        complain(f"{file} cannot be read: {error.strerror}.")
        raise typer.Exit(NOT_FOUND) from None
    with waiting(f"Reading {file}"):
        data = read_data(text, path)
    target = store_meant(store)
    if data is not None:
        _take_over(data, target, tenant or DEFAULT_TENANT, file, replaces=replace)
        return
    if replace or tenant is not None:
        raise typer.BadParameter("`--replace` and `--tenant` are for files of RegistryTools.")
    with waiting(f"Reading {file}"):
        archive = read_archive(text, name=file)
        _check_archive(archive, name=file)
    for it in archive.tenants:
        with (
            values_checked(),
            open_store(target, tenant=it.tenant) as opened,
            _shown_progress() as shown,
        ):
            copied = restore(it, opened, on_progress=shown)
        _tell(copied, it.tenant, f"to {without_password(target)}")
    if not archive.tenants:
        warn(f"There is nothing in {file}.")


def _for_registrytools(url: str, tenants: Sequence[str] | None, file: str) -> tuple[bytes, str]:
    """Return what to write to a file for RegistryTools, and in words how much that is."""
    is_database = Path(file).suffix == ".db"
    if file != "-" and Path(file).suffix not in {".db", ".json"}:
        problem = f"RegistryTools opens only names that end in .json or .db: rename {file}."
        raise typer.BadParameter(problem)
    if len(tenants or ()) > 1:
        raise typer.BadParameter("A file of RegistryTools holds one tenant: name only one.")
    if is_database and Path(f"{Path(file).expanduser()}-wal").exists():
        # SQLite would add what is there to the new file.
        problem = (
            f"{file}-wal exists, so {file} is in use: stop RegistryTools, or name another file."
        )
        raise typer.BadParameter(problem)
    [tenant] = tenants or [DEFAULT_TENANT]
    with _existing(url, tenant) as opened, waiting("Reading the store"):
        content, tools = written_data(opened, database=is_database)
    return content, f"{counted(tools, 'tool')} for RegistryTools"


def _mode_of(path: Path, file: str) -> int | None:
    """Return the mode of a file, or ``None`` if there is none."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise typer.BadParameter(f"{shorten(file)} cannot be used: {reason}.") from None


def _refuse_itself(file: str, store: str) -> None:
    # A store of an unknown kind is refused when it is opened.
    with suppress(ValueError):
        if is_file_of(store, Path(file).expanduser()):
            raise typer.BadParameter(f"{file} is the store itself: name another file or store.")


def _take_over(
    data: RegistryToolsData, target: str, tenant: str, file: str, *, replaces: bool
) -> None:
    _refuse_itself(file, target)
    with (
        values_checked(),
        open_store(target, tenant=tenant) as opened,
        _shown_progress() as shown,
    ):
        taken = take_over(data, opened, replaces=replaces, on_progress=shown)
    where = without_password(target)
    say(
        f"Copied {counted(taken.tools, 'tool')} and the usage of {counted(taken.used, 'tool')} "
        f"from {file} of RegistryTools to {where}."
    )
    if taken.present:
        say(f"Skipped {counted(taken.present, 'tool')} that the store has already.")
    if taken.differing:
        names = _some(_brief(it) for it in sorted(taken.differing))
        kept = counted(len(taken.differing), "tool")
        warn(f"Kept {kept} that the store defines otherwise: {names}. `--replace` replaces them.")
    for name, problem in list(data.skipped.items())[:_MOST_NAMED]:
        warn(f"Skipped {_brief(name)!r}, which Pegboard cannot store: {_brief(problem, 300)}")
    if len(data.skipped) > _MOST_NAMED:
        warn(f"Skipped {len(data.skipped) - _MOST_NAMED} more for reasons like these.")


@contextmanager
def _existing(url: str, tenant: str) -> Generator[Store]:
    with values_checked():
        opened = open_existing(url, tenant=tenant)
    if opened is None:
        complain(f"There is nothing in {without_password(url)}.")
        raise typer.Exit(NOT_FOUND)
    with opened as store:
        yield store


def _each(url: str, tenants: Sequence[str] | None) -> Generator[Store]:
    """Give the store of each tenant that has data there."""
    is_empty = True
    for tenant in tenants or _tenants_in(url):
        with values_checked():
            opened = open_existing(url, tenant=tenant)
        if opened is not None:
            is_empty = False
            with opened as store:
                yield store
    if is_empty:
        complain(f"There is nothing in {without_password(url)}.")
        raise typer.Exit(NOT_FOUND)


def _tenants_in(url: str) -> list[str]:
    """Return the tenants that API keys name: a store does not list its tenants."""
    from pegboard.auth import ApiKeys  # noqa: PLC0415 - only to move whole stores

    with ExitStack() as stack, values_checked():
        operators = open_existing(url, tenant=OPERATOR)
        if operators is None:
            return [DEFAULT_TENANT]
        keys = stack.enter_context(ApiKeys(stack.enter_context(operators)))
        return list(dict.fromkeys([DEFAULT_TENANT, OPERATOR, *(it.tenant for it in keys.list())]))


def store_as_json(store: Store, url: str) -> dict[str, Any]:
    """Return a store as ``--json`` prints it: one object.

    ``store`` (its URL, without a password), ``kind`` (``json``, ``sqlite``, ``postgresql``
    or the scheme of a plug-in), ``bytes`` (of its files; null for a database), ``tenant``,
    ``tools`` (registered definitions), ``used`` (tools that were ever called), ``calls`` (of all
    tools), ``values`` (the number of other values, by namespace).
    """
    usage = store.usage()
    files = files_of(url, tenant=store.tenant)
    return {
        "store": store.url,
        "kind": scheme_of(url),
        "bytes": None if files is None else sum(map(_size, files)),
        "tenant": store.tenant,
        "tools": len(store.load_all()),
        "used": len(usage),
        "calls": sum(it.use_frequency for it in usage.values()),
        "values": {name: len(store.namespace(name).keys()) for name in store.namespaces()},
    }


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _size(file: Path) -> int:
    # The newest pages of an SQLite file are beside it for a while.
    parts = (file, file.with_name(f"{file.name}-wal"))
    return sum(it.stat().st_size for it in parts if it.exists())


@contextmanager
def _shown_progress() -> Generator[OnProgress]:
    with progress() as bar:
        task = bar.add_task("Tools", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _tell(copied: Copied, tenant: str, where: str) -> None:
    say(
        f"Copied {counted(copied.tools, 'tool')}, the usage of {counted(copied.used, 'tool')}, and "
        f"{counted(copied.values, 'other value')} of tenant {tenant!r} {where}."
    )


def _check_archive(archive: Archive, *, name: str) -> None:
    """Refuse an archive with unusable values; unknown namespaces may hold any JSON.

    Raises:
        StorageError: when something is damaged, with its place.
    """
    damaged = list(_damaged(archive))
    if damaged:
        raise StorageError(
            f"{name} is damaged, so nothing was written: {_some(damaged)} cannot be read. Export "
            "it again, or remove these entries from the file.",
            url=name,
        )


def _brief(text: str, limit: int = 80) -> str:
    # What is not UTF-8 in a database cannot be printed.
    text = text[: limit + 1].encode(errors="replace").decode()
    return printable(text if len(text) <= limit else f"{text[:limit]}…")


def _some(words: Iterable[str]) -> str:
    listed = list(words)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return f"{', '.join(listed[:_MOST_NAMED])}{more}"


def _damaged(archive: Archive) -> Iterator[str]:
    readers = _readers()
    for tenant in archive.tenants:
        for index, it in enumerate(tenant.tools):
            if not _is_sound(lambda _, raw: decode_tool(raw), "", bytes(it.tool)):
                yield f"tool {index + 1} of {tenant.tenant!r}"
        for namespace, values in tenant.values.items():
            read = readers.get(namespace)
            for key, value in values.items():
                if read is not None and not _is_sound(read, key, value):
                    yield f"{namespace}/{key} of {tenant.tenant!r}"


def _is_sound(read: Callable[[str, Any], object], key: str, value: object) -> bool:
    try:
        read(key, value)
    except (ValueError, TypeError, RecursionError, StorageError):
        return False
    return True


def _readers() -> Mapping[str, Callable[[str, Any], object]]:
    """Return a function for each namespace that reads a value, and raises an error if damaged."""
    from pegboard.auth.api_keys import KEYS, stored_key  # noqa: PLC0415 - only to import archives
    from pegboard.model import CallRecord  # noqa: PLC0415 - the same
    from pegboard.observe import AuditRecord  # noqa: PLC0415 - the same
    from pegboard.observe.audit import AUDIT  # noqa: PLC0415 - the same
    from pegboard.observe.usage_totals import CALLS, DAILY_USAGE, check_day  # noqa: PLC0415 - the same
    from pegboard.upstream.catalog.cache import CachedCatalog  # noqa: PLC0415 - the same
    from pegboard.upstream.catalog.offline_catalog import SERVERS  # noqa: PLC0415 - the same

    return {
        KEYS: stored_key,
        AUDIT: lambda _, value: msgspec.convert(value, AuditRecord),
        CALLS: lambda _, value: msgspec.convert(value, CallRecord),
        DAILY_USAGE: check_day,
        SERVERS: lambda _, value: msgspec.convert(value, CachedCatalog),
    }
