"""Look after stores by hand: `python -m pegboard.storage check|recover|copy|info`."""

import argparse
import sys
from collections.abc import Callable, Sequence

from pegboard.errors import StorageError
from pegboard.storage.copying import copy_store
from pegboard.storage.json_file.paths import paths_of
from pegboard.storage.json_file.recovery import recover as recover_json
from pegboard.storage.open_store import DEFAULT_TENANT, open_store, scheme_of
from pegboard.storage.recovered import Recovered
from pegboard.storage.sqlite.recovery import recover as recover_sqlite
from pegboard.storage.store import Store
from pegboard.storage.urls import path_of

__all__ = ["main"]

_RECOVERIES: dict[str, Callable[..., Recovered]] = {"json": recover_json, "sqlite": recover_sqlite}


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says, and return the exit code: 0 done, 1 not done, 2 misused."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (StorageError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - this is a command
        return 1


def _check(options: argparse.Namespace) -> int:
    with _existing(options) as store:
        store.check()
        _say(f"{store.url} is sound: {_counted(len(store.load_all()), 'tool')}.")
    return 0


def _info(options: argparse.Namespace) -> int:
    with _existing(options) as store:
        usage = store.usage()
        _say(f"store       {store.url}")
        _say(f"tenant      {store.tenant}")
        _say(f"tools       {len(store.load_all())}")
        calls = _counted(sum(it.use_frequency for it in usage.values()), "call")
        _say(f"used        {len(usage)} ({calls})")
        for name in store.namespaces():
            _say(f"{name:<11} {len(store.namespace(name).items())}")
    return 0


def _copy(options: argparse.Namespace) -> int:
    def progress(done: int, total: int) -> None:
        print(f"\r{done} of {_counted(total, 'tool')}", end="", file=sys.stderr)  # noqa: T201 - this is a command

    if _place(options.url) == _place(options.target):
        raise ValueError("Source and target are the same store: name another target.")
    with (
        _existing(options) as source,
        open_store(options.target, tenant=options.tenant) as target,
    ):
        copied = copy_store(source, target, on_progress=progress)
        print(file=sys.stderr)  # noqa: T201 - this is a command
        _say(
            f"Copied {_counted(copied.tools, 'tool')}, the usage of {copied.used}, and "
            f"{_counted(copied.values, 'other value')} to {target.url}."
        )
        if not copied.tools and not copied.used and not copied.values:
            _warn(f"there was nothing to copy: {source.url} has nothing of {source.tenant!r}.")
    return 0


def _recover(options: argparse.Namespace) -> int:
    recovery = _RECOVERIES.get(scheme_of(options.url))
    if recovery is None:
        raise ValueError("Only files are recovered here; restore a database from its backup.")
    recovered = recovery(path_of(options.url))
    if recovered.saved_as is None:
        _say("Nothing is damaged here, and nothing was changed.")
        return 0
    for sentence in recovered.lost:
        _say(f"lost: {sentence}")
    kept = _counted(len(recovered.kept), "tool")
    _say(f"Kept {kept}. The damaged file is now {recovered.saved_as}.")
    return 0


def _existing(options: argparse.Namespace) -> Store:
    # To open a store makes it; a wrong name must not look like an empty one.
    path = path_of(options.url)
    tenant = None if options.tenant == DEFAULT_TENANT else options.tenant
    own = {"json": lambda: paths_of(path, tenant), "sqlite": lambda: [path]}
    files = own.get(scheme_of(options.url), lambda: None)()
    if files is not None and not any(it.exists() and it.stat().st_size for it in files):
        raise ValueError(f"There is nothing in {options.url}.")
    return open_store(options.url, tenant=options.tenant)


def _place(url: str) -> tuple[str, object]:
    scheme = scheme_of(url)
    return scheme, path_of(url).resolve() if scheme in _RECOVERIES else url


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _say(line: str) -> None:
    print(line)  # noqa: T201 - this is a command


def _warn(line: str) -> None:
    print(f"warning: {line}", file=sys.stderr)  # noqa: T201 - this is a command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m pegboard.storage", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="check|recover|copy|info")
    for name, run, words in (
        ("check", _check, "read everything in a store, and say where it is damaged"),
        ("recover", _recover, "keep what can be read of a damaged file, and set the rest aside"),
        ("copy", _copy, "copy everything to another store, of any kind"),
        ("info", _info, "say what is in a store"),
    ):
        verb = verbs.add_parser(name, help=words, description=words)
        verb.set_defaults(run=run)
        verb.add_argument("url", help="tools.json, sqlite:///path, postgresql://…")
        if name == "copy":
            verb.add_argument("target", help="where to")
        if name != "recover":
            verb.add_argument("--tenant", default=DEFAULT_TENANT)
    return parser


if __name__ == "__main__":
    sys.exit(main())
