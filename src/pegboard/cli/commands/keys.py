"""`pegboard keys`: create, list, revoke and rotate the API keys of the gateway."""

import getpass
import glob
import logging
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import msgspec
import typer

from pegboard.auth import ApiKey, ApiKeys, IssuedKey, KeyGrant, load_auth_settings
from pegboard.auth.api_keys import KEYS
from pegboard.cli.entry.error_messages import values_checked
from pegboard.cli.entry.signals import Interruption, interruptible
from pegboard.cli.exit_codes import FAILED, NOT_FOUND
from pegboard.cli.terminal.broken_pipe import lost_output
from pegboard.cli.terminal.durations import as_iso, duration, moment, shown
from pegboard.cli.terminal.output import complain, say, show_table, warn, write_json
from pegboard.cli.terminal.spinner import waiting
from pegboard.errors import ApiKeyNotFoundError, ConfigError, PegboardError
from pegboard.model.principal import DEFAULT_TENANT, OPERATOR, Scope, Surface
from pegboard.observe import Audit
from pegboard.storage import default_url, open_store
from pegboard.storage.open_store import path_of, scheme_of
from pegboard.storage.store import KeyValues, StoredValue

__all__ = ["add_to"]

_keys = typer.Typer(
    help="Create, list, revoke and rotate the API keys of the gateway.", no_args_is_help=True
)

_Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Store with the keys (default: PEGBOARD_STORE, or your own store).",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(root: typer.Typer) -> None:
    """Add the commands to an application."""
    root.add_typer(_keys, name="keys")


@_keys.command()
def create(
    *,
    name: Annotated[str, typer.Option(metavar="TEXT", help="Who or what the key is for.")] = "",
    tenant: Annotated[
        str, typer.Option(metavar="NAME", help="Tenant of the key.")
    ] = DEFAULT_TENANT,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(get_args(Scope)),
            autocompletion=lambda: list(get_args(Scope)),
            help="read: find and describe tools; call (the default): also call them; register: "
            "register tools; admin: everything. Can be repeated.",
        ),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Servers that the key may use, such as git* (default: all). Can be repeated.",
        ),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Tools that the key may use, such as *_read_* (default: all). Can be repeated.",
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="A lifetime such as 90d, or a date such as 2027-01-31 (default: never).",
        ),
    ] = None,
    surface: Annotated[
        Surface | None,
        typer.Option(help="What /mcp lists for the key (default: as the gateway was started)."),
    ] = None,
    calls_per_minute: Annotated[
        int | None,
        typer.Option(metavar="N", help="Maximum number of calls a minute (default: unlimited)."),
    ] = None,
    concurrent_calls: Annotated[
        int | None,
        typer.Option(metavar="N", help="Maximum number of calls at once (default: unlimited)."),
    ] = None,
    store: _Store = None,
    json: _Json = False,
) -> None:
    """Create a key; its secret is shown only once.

    A gateway requires keys if PEGBOARD_AUTH=keys is set or its configuration file says so.
    """
    until = None if expires is None else moment(expires, option="--expires")
    with values_checked():
        grant = KeyGrant(
            name=name,
            tenant=tenant,
            scopes=_scopes_of(scope or ["call"]),
            servers=tuple(server or ["*"]),
            tools=tuple(tool or ["*"]),
            expires=until,
            surface=surface,
            calls_per_minute=calls_per_minute,
            concurrent_calls=concurrent_calls,
        )
        with interruptible() as interruption, _opened(store) as kept:
            interruption.put_off()
            issued = kept.keys.create(grant)
            with _undone_if_unseen(lambda: kept.values.delete([issued.key.id]), interruption):
                _show_secret(issued, json=json)
            kept.audit.note("keys.create", "done", target=issued.key.id, source=_person())
    if not json:
        _say_how_to_ask_for_keys()


@_keys.command("list")
def list_keys(
    *,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="List only the keys of this tenant.")
    ] = None,
    store: _Store = None,
    json: _Json = False,
) -> None:
    """List all keys, without their secrets."""
    missing = _missing_store(store)
    found: list[ApiKey] = []
    damaged: tuple[str, ...] = ()
    if missing is None:
        with values_checked(), _opened(store) as kept:
            found, damaged = list(kept.keys.list(tenant=tenant)), kept.keys.damaged
    if json:
        write_json([key_as_json(it) for it in found])
    elif found:
        is_limited = any(_limits(it) for it in found)
        columns = [it for it in _COLUMNS if is_limited or it != "LIMITS"]
        rows = ([_COLUMNS[column](it) for column in columns] for it in found)
        whole = ("STATE", "EXPIRES", "LAST USED")
        show_table(columns, rows, right=["USES"], whole=whole)
    elif missing is not None:
        warn(f"There is no store at {missing} yet: `pegboard keys create` creates it with a key.")
    elif not damaged:
        warn("There are no keys yet: `pegboard keys create` creates one.")
    if damaged:
        are = "key is damaged" if len(damaged) == 1 else "keys are damaged"
        complain(f"{len(damaged)} {are} and cannot be used: {', '.join(damaged)}.")
        raise typer.Exit(FAILED)


@_keys.command()
def revoke(
    *,
    ids: Annotated[
        list[str], typer.Argument(metavar="ID", help="Its id, as `pegboard keys list` shows it.")
    ],
    store: _Store = None,
    json: _Json = False,
) -> None:
    """Revoke keys, so that the gateway no longer accepts them."""
    _check_store(store, ids[0])
    revoked: list[ApiKey] = []
    unknown: list[ApiKeyNotFoundError] = []
    try:
        with values_checked(), _opened(store) as kept:
            for key in dict.fromkeys(ids):
                try:
                    revoked.append(kept.keys.revoke(key))
                except ApiKeyNotFoundError as error:
                    unknown.append(error)
                else:
                    kept.audit.note("keys.revoke", "done", target=key, source=_person())
    finally:
        # A command that failed half way shows what it did, too.
        _show_revoked(revoked, json=json)
    for error in unknown:
        complain(str(error))
    if unknown:
        raise typer.Exit(NOT_FOUND)


@_keys.command()
def rotate(
    *,
    key: Annotated[
        str, typer.Argument(metavar="ID", help="Its id, as `pegboard keys list` shows it.")
    ],
    overlap: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How long the old secret stays valid beside the new one, such as 24h or 7d.",
        ),
    ] = "0s",
    store: _Store = None,
    json: _Json = False,
) -> None:
    """Give a key a new secret, which is shown only once."""
    seconds = duration(overlap, option="--overlap")
    _check_store(store, key)
    with values_checked(), interruptible() as interruption, _opened(store) as kept:
        before = kept.values.items().get(key)
        interruption.put_off()
        issued = _rotated(kept.keys, key, overlap=seconds)
        written = kept.values.get(key)
        with _undone_if_unseen(
            lambda: _put_secrets_back(kept.values, key, before, written), interruption
        ):
            _show_secret(issued, json=json)
        kept.audit.note("keys.rotate", "done", target=key, source=_person())


def key_as_json(key: ApiKey) -> dict[str, Any]:
    """Return a key as ``--json`` prints it: an array of objects.

    ``id``, ``name``, ``tenant``, ``scopes``, ``servers`` and ``tools`` (patterns), ``created``,
    ``expires`` (null: never), ``surface`` (null: as the gateway was started),
    ``calls_per_minute``, ``concurrent_calls`` (null: unlimited), ``revoked`` (when, or null),
    ``last_used`` (null: never), ``uses``, ``maker`` (the subject whose session at the console made
    it, or null). Times are ISO 8601, in UTC.
    """
    found = msgspec.to_builtins(key)
    for name in ("created", "expires", "revoked", "last_used"):
        if isinstance(found[name], int | float):
            found[name] = as_iso(found[name])
    return found


def issued_as_json(issued: IssuedKey) -> dict[str, Any]:
    """Return a key and its secret as ``--json`` prints them: one object.

    The fields of `keys list --json`, and ``secret``, which is shown only once.
    """
    return {**key_as_json(issued.key), "secret": issued.secret}


def _scopes_of(words: Sequence[str]) -> tuple[Scope, ...]:
    try:
        return msgspec.convert(tuple(dict.fromkeys(words)), tuple[Scope, ...])
    except msgspec.ValidationError:
        known = ", ".join(get_args(Scope))
        problem = f"{', '.join(words)}: choose from {known}."
        raise typer.BadParameter(problem, param_hint="--scope") from None


def _missing_store(url: str | None) -> Path | None:
    """Return the file of the store, if it does not exist yet."""
    url = url or default_url()
    with values_checked():
        if scheme_of(url) not in ("json", "sqlite"):
            return None
        path = path_of(url)
    # Keys in JSON are in files beside the one that is named.
    return None if any(path.parent.glob(f"{glob.escape(path.stem)}*")) else path


def _check_store(url: str | None, key: str) -> None:
    missing = _missing_store(url)
    if missing is not None:
        raise ConfigError(
            f"No API key has the id {key!r}: there is no store at {missing}.", is_missing=True
        )


class _Kept(NamedTuple):
    """The keys, and what is beside them in the operator's store."""

    keys: ApiKeys
    audit: Audit
    values: KeyValues
    """The keys as they are written."""


@contextmanager
def _opened(url: str | None) -> Generator[_Kept]:
    # The command reports damaged keys itself, not as a line of a log.
    logging.getLogger("pegboard.auth").addHandler(logging.NullHandler())
    with ExitStack() as stack:
        with waiting("Opening the store"):
            store = stack.enter_context(open_store(url, tenant=OPERATOR))
            keys = stack.enter_context(ApiKeys(store))
        audit = Audit(store)
        try:
            yield _Kept(keys, audit, store.namespace(KEYS))
        finally:
            audit.close()


@contextmanager
def _undone_if_unseen(undo: Callable[[], object], interruption: Interruption) -> Generator[None]:
    """Undo what was done, if the secret that is shown here is not written."""
    try:
        interruption.let_in()
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        undo()
        raise
    except OSError as error:
        undo()
        lost_output(sys.stdout)
        complain(f"The secret cannot be written: {error.strerror}. No key was changed.")
        raise typer.Exit(FAILED) from None


def _rotated(keys: ApiKeys, key: str, *, overlap: float) -> IssuedKey:
    try:
        return keys.rotate(key, overlap=overlap)
    except PegboardError:
        raise
    except ValueError as error:
        # The key exists, and the command is right, but the key cannot be rotated.
        complain(f"{error} `pegboard keys create` creates a new one.")
        raise typer.Exit(FAILED) from None


def _put_secrets_back(
    values: KeyValues, key: str, before: StoredValue | None, written: StoredValue | None
) -> None:
    now = values.get(key)
    if before is None or now is None or written is None:
        return
    # If another process rotated the key meanwhile, that secret stays valid.
    if now.value["secrets"] == written.value["secrets"]:
        # Other changes, such as a revocation, stay.
        whole = {**now.value, "secrets": before.value["secrets"]}
        values.put(key, whole, expected=now.revision)


def _show_revoked(keys: Sequence[ApiKey], *, json: bool) -> None:
    if json:
        write_json([key_as_json(it) for it in keys])
        return
    for key in keys:
        say(f"Revoked: {key.id}")


def _show_secret(issued: IssuedKey, *, json: bool) -> None:
    if json:
        write_json(issued_as_json(issued))
        return
    warn(f"Key {issued.key.id}. Its secret is shown only once, and is not stored:")
    say(issued.secret)


def _say_how_to_ask_for_keys() -> None:
    # The key is created; the gateway reports what is wrong with its settings.
    with suppress(ConfigError):
        if not load_auth_settings().keys:
            warn(
                "A gateway requires keys only if it is told to: `PEGBOARD_AUTH=keys pegboard "
                'serve`, or `"gateway": {"auth": {"keys": true}}` in its configuration file.'
            )


def _state(key: ApiKey) -> str:
    if key.revoked is not None:
        return "revoked"
    return "expired" if key.expires is not None and key.expires <= time.time() else "valid"


def _limits(key: ApiKey) -> str:
    said = {
        f"{key.calls_per_minute} a minute": key.calls_per_minute,
        f"{key.concurrent_calls} at once": key.concurrent_calls,
        f"sees {key.surface}": key.surface,
    }
    return ", ".join(words for words, value in said.items() if value is not None)


_COLUMNS: dict[str, Callable[[ApiKey], str]] = {
    "ID": lambda it: it.id,
    "NAME": lambda it: it.name,
    "STATE": _state,
    "EXPIRES": lambda it: shown(it.expires, nothing="never"),
    "LAST USED": lambda it: shown(it.last_used, nothing="never"),
    "USES": lambda it: f"{it.uses:,}",
    "SCOPES": lambda it: " ".join(it.scopes),
    "LIMITS": _limits,
    "SERVERS": lambda it: " ".join(it.servers),
    "TOOLS": lambda it: " ".join(it.tools),
    "TENANT": lambda it: it.tenant,
}


def _person() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        # A user that the system does not know, as in a container.
        return ""
