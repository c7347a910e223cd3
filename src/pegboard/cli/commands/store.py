"""`pegboard store`: look after what is kept."""

import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from pegboard.cli.entry.error_messages import values_checked
from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.files.store_files import check_archive, store_meant
from pegboard.cli.terminal.output import complain, progress, say, warn, write_json
from pegboard.cli.terminal.plain_text import columns_of, counted
from pegboard.cli.terminal.spinner import waiting
from pegboard.config.atomic_write import read_named_file
from pegboard.errors import StorageError
from pegboard.model.principal import DEFAULT_TENANT, OPERATOR
from pegboard.storage import Copied, OnProgress, Store, copy_store, open_store
from pegboard.storage.export_import import archived, read_archive, restore
from pegboard.storage.json_file.atomic_write import replace_file
from pegboard.storage.maintenance import files_of, is_same_store, open_existing, recover_store
from pegboard.storage.open_store import scheme_of, without_password

__all__ = ["add_to"]

_store = typer.Typer(
    help="Look after what is kept: tools, usage, keys, and what servers offered.",
    no_args_is_help=True,
)

_Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Which store (PEGBOARD_STORE, or your own)."),
]
_Tenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose.")]
_Tenants = Annotated[
    list[str] | None,
    typer.Option(
        "--tenant",
        metavar="NAME",
        help="Whose; may be given several times (the default one, those that have API keys, "
        "and the keys themselves).",
    ),
]
_ROOMS = {
    "calls": "the latest, one by one",
    "failed-starts": "servers that did not start when a command needed them",
    "leases": "jobs that one process at a time does",
    "servers": "what each one offered",
    "servers-used": "on which day each one was",
}
"""What is in the rooms whose names do not say it."""
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(root: typer.Typer) -> None:
    """Add the commands to an application."""
    root.add_typer(_store, name="store")


@_store.command()
def info(*, store: _Store = None, tenant: _Tenant = DEFAULT_TENANT, json: _Json = False) -> None:
    """Say what is in a store."""
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
        say("other values, by room:")
    rooms = [(name, _shown(count), _ROOMS.get(name, "")) for name, count in values.items()]
    for line in columns_of(rooms, "<><"):
        say(f"  {line}")


@_store.command()
def check(*, store: _Store = None, tenant: _Tenant = DEFAULT_TENANT) -> None:
    """Read everything in a store, and say where it is damaged."""
    with _existing(store_meant(store), tenant) as opened:
        with waiting("Reading the store"):
            opened.check()
            tools = counted(len(opened.load_all()), "tool")
        say(f"{opened.url} is sound: {tools}.")


@_store.command()
def recover(*, store: _Store = None) -> None:
    """Keep what can be read of a damaged file, and set the file itself aside."""
    url = store_meant(store)
    with values_checked(), waiting("Reading the store"):
        recovered = recover_store(url)
    if recovered.saved_as is None:
        say("Nothing is damaged here, and nothing was changed.")
        return
    for sentence in recovered.lost:
        say(f"lost: {sentence}")
    kept = counted(len(recovered.kept), "tool")
    say(f"Kept {kept}. The damaged file is now {recovered.saved_as}.")


@_store.command()
def migrate(
    *,
    target: Annotated[str, typer.Argument(metavar="URL", help="Where to: any kind of store.")],
    store: _Store = None,
    tenant: _Tenants = None,
) -> None:
    """Copy everything to another store, of any kind; what is there under other names stays.

    The store that is copied stays as it is, and may be in use. A file of an older Pegboard needs
    no command: it is brought forward when it is next written.
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
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to; - is standard output.")],
    store: _Store = None,
    tenant: _Tenants = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write everything into one JSON file, which only you can read."""
    path = Path(file).expanduser()
    if file != "-" and path.exists() and not path.is_file():
        raise typer.BadParameter(f"{file} is no file, but a folder, pipe or device: name a file.")
    if file != "-" and path.exists() and not force:
        problem = f"{file} is there already: name another file, or add `--force`."
        raise typer.BadParameter(problem)
    url = store_meant(store)
    with waiting("Reading the store"):
        archive = archived(_each(url, tenant))
        text = msgspec.json.format(msgspec.json.encode(archive), indent=1) + b"\n"
    if file == "-":
        sys.stdout.write(text.decode())
        return
    try:
        replace_file(path, [text], keeps_mode=False)
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror}.", url=file) from error
    tools = sum(len(it.tools) for it in archive.tenants)
    tenants = ", ".join(it.tenant for it in archive.tenants)
    say(f"Wrote {counted(tools, 'tool')} and all else of {tenants} to {file}.")


@_store.command("import")
def import_archive(
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `export` wrote; - is input.")],
    store: _Store = None,
) -> None:
    """Put what `export` wrote into a store; what is there under other names stays."""
    try:
        text = sys.stdin.buffer.read() if file == "-" else read_named_file(Path(file).expanduser())
    except OSError as error:
        complain(f"{file} cannot be read: {error.strerror}.")
        raise typer.Exit(NOT_FOUND) from None
    with waiting(f"Reading {file}"):
        archive = read_archive(text, name=file)
        check_archive(archive, name=file)
    target = store_meant(store)
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
    """Give the store for each tenant that has something there."""
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
    """Return the tenants that are known: a store tells nobody who else is in it, but keys do."""
    from pegboard.auth import ApiKeys  # noqa: PLC0415 - only to move whole stores

    with ExitStack() as stack, values_checked():
        operators = open_existing(url, tenant=OPERATOR)
        if operators is None:
            return [DEFAULT_TENANT]
        keys = stack.enter_context(ApiKeys(stack.enter_context(operators)))
        return list(dict.fromkeys([DEFAULT_TENANT, OPERATOR, *(it.tenant for it in keys.list())]))


def store_as_json(store: Store, url: str) -> dict[str, Any]:
    """Return a store as ``--json`` has it: one object.

    ``store`` (where, without a password), ``kind`` (``json``, ``sqlite``, ``postgresql``
    or of a plug-in), ``bytes`` (of its files; null for a database), ``tenant``, ``tools``
    (definitions that were registered), ``used`` (tools that were ever called), ``calls`` (of all
    of them), ``values`` (how many other values, by room).
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
        f"Copied {counted(copied.tools, 'tool')}, the usage of {copied.used}, and "
        f"{counted(copied.values, 'other value')} of {tenant!r} {where}."
    )
