"""`pegboard keys`: make, list, revoke and rotate the API keys of the gateway."""

import argparse
import getpass
import glob
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from pegboard.auth import ApiKey, ApiKeys, IssuedKey, KeyGrant
from pegboard.cli.moments import duration, moment, shown
from pegboard.cli.wording import sentence
from pegboard.errors import ConfigError, PegboardError
from pegboard.model.principal import DEFAULT_TENANT, OPERATOR, Scope, Surface
from pegboard.observe import Audit
from pegboard.storage import default_url, open_store
from pegboard.storage.open_store import scheme_of
from pegboard.storage.urls import path_of

if TYPE_CHECKING:
    from pegboard.cli.search import Commands

__all__ = ["add_to"]


def add_to(commands: "Commands") -> None:
    """Add the command to a parser."""
    words = "make, list, revoke and rotate API keys of the gateway"
    parser = commands.add_parser("keys", help=words, description=sentence(words))
    verbs = parser.add_subparsers(required=True, metavar="create|list|revoke|rotate")
    _add_create(verbs)
    listing = _add(verbs, "list", _list, "show all keys, never their secrets")
    listing.add_argument("--tenant", help="only those of this tenant")
    revoking = _add(verbs, "revoke", _revoke, "accept keys no more")
    revoking.add_argument("id", nargs="+", help="as `keys list` shows it")
    rotating = _add(verbs, "rotate", _rotate, "give a key a new secret, which is shown once")
    rotating.add_argument("id", help="as `keys list` shows it")
    rotating.add_argument(
        "--overlap",
        type=duration,
        default=0.0,
        metavar="TIME",
        help="how long the old secret is accepted beside the new one: 24h, 7d (not at all)",
    )


def _add_create(verbs: "Commands") -> None:
    parser = _add(verbs, "create", _create, "make a key; its secret is shown once")
    parser.add_argument("--name", default="", help="whom or what it is for")
    parser.add_argument("--tenant", default=DEFAULT_TENANT, help=f"({DEFAULT_TENANT})")
    parser.add_argument(
        "--scope",
        action="append",
        choices=get_args(Scope),
        help="read: find and describe; call (the default): that, and call; register; admin: all. "
        "May be given several times",
    )
    for kind in ("server", "tool"):
        parser.add_argument(
            f"--{kind}", action="append", metavar="PATTERN", help=f"{kind}s it is for: git* (all)"
        )
    parser.add_argument(
        "--expires", type=moment, metavar="WHEN", help="90d from now, or 2027-01-31 (never)"
    )
    parser.add_argument(
        "--surface",
        choices=get_args(Surface),
        help="what it sees at /mcp (as the server was started)",
    )
    parser.add_argument("--calls-per-minute", type=int, metavar="N")
    parser.add_argument("--concurrent-calls", type=int, metavar="N")


def _add(
    verbs: "Commands", name: str, run: Callable[[argparse.Namespace], int], words: str
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=words, description=sentence(words))
    parser.add_argument(
        "--store", metavar="URL", help="where keys are kept (PEGBOARD_STORE, or the user's own)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=partial(_checked, run))
    return parser


def _checked(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    try:
        return run(options)
    except PegboardError:
        raise
    except ValueError as error:
        _warn(f"error: {error}")
        return 2


def _create(options: argparse.Namespace) -> int:
    grant = KeyGrant(
        name=options.name,
        tenant=options.tenant,
        scopes=tuple(dict.fromkeys(options.scope or ["call"])),
        servers=tuple(options.server or ["*"]),
        tools=tuple(options.tool or ["*"]),
        expires=options.expires,
        surface=options.surface,
        calls_per_minute=options.calls_per_minute,
        concurrent_calls=options.concurrent_calls,
    )
    with _opened(options) as (keys, audit):
        issued = keys.create(grant)
        audit.note("keys.create", "done", target=issued.key.id, source=_person())
    _show_secret(issued, options)
    return 0


def _list(options: argparse.Namespace) -> int:
    missing = _missing_store(options)
    if missing is not None:
        _warn(f"There is no store at {missing} yet: `pegboard keys create` makes one, with a key.")
        return 0
    with _opened(options) as (keys, _):
        found = keys.list(tenant=options.tenant)
    if options.json:
        for key in found:
            _say(msgspec.json.encode(key).decode())
    elif found:
        _say(_table(found))
    else:
        _warn("There are no keys yet: `pegboard keys create` makes one.")
    return 0


def _revoke(options: argparse.Namespace) -> int:
    _check_store(options, options.id[0])
    with _opened(options) as (keys, audit):
        for key in options.id:
            revoked = keys.revoke(key)
            audit.note("keys.revoke", "done", target=key, source=_person())
            if options.json:
                _say(msgspec.json.encode(revoked).decode())
            else:
                _say(f"Revoked: {key}")
    return 0


def _rotate(options: argparse.Namespace) -> int:
    _check_store(options, options.id)
    with _opened(options) as (keys, audit):
        issued = keys.rotate(options.id, overlap=options.overlap)
        audit.note("keys.rotate", "done", target=options.id, source=_person())
    _show_secret(issued, options)
    return 0


def _missing_store(options: argparse.Namespace) -> Path | None:
    """Return the file that is to be the store, if nobody made it yet."""
    url = options.store or default_url()
    if scheme_of(url) not in ("json", "sqlite"):
        return None
    path = path_of(url)
    # Keys in JSON are in files beside the one that is named.
    return None if any(path.parent.glob(f"{glob.escape(path.stem)}*")) else path


def _check_store(options: argparse.Namespace, key: str) -> None:
    missing = _missing_store(options)
    if missing is not None:
        raise ConfigError(f"No API key has the id {key!r}: there is no store at {missing}.")


@contextmanager
def _opened(options: argparse.Namespace) -> Generator[tuple[ApiKeys, Audit]]:
    with open_store(options.store, tenant=OPERATOR) as store, ApiKeys(store) as keys:
        audit = Audit(store)
        try:
            yield keys, audit
        finally:
            audit.close()


def _show_secret(issued: IssuedKey, options: argparse.Namespace) -> None:
    if options.json:
        shown = {**msgspec.to_builtins(issued.key), "secret": issued.secret}
        _say(msgspec.json.encode(shown).decode())
        return
    _warn(f"Key {issued.key.id}. Its secret is shown this once, and kept nowhere:")
    _say(issued.secret)


def _state(key: ApiKey) -> str:
    if key.revoked is not None:
        return "revoked"
    return "expired" if key.expires is not None and key.expires <= time.time() else "valid"


_COLUMNS: dict[str, Callable[[ApiKey], str]] = {
    "id": lambda it: it.id,
    "name": lambda it: it.name,
    "tenant": lambda it: it.tenant,
    "scopes": lambda it: " ".join(it.scopes),
    "servers": lambda it: " ".join(it.servers),
    "tools": lambda it: " ".join(it.tools),
    "state": _state,
    "expires": lambda it: shown(it.expires, nothing="never"),
    "last used": lambda it: shown(it.last_used, nothing="never"),
    "uses": lambda it: f"{it.uses:,}",
}


def _table(keys: Sequence[ApiKey]) -> str:
    rows = [list(_COLUMNS), *([write(it) for write in _COLUMNS.values()] for it in keys)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _person() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        # A user that the system does not know, as in a container.
        return ""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _warn(line: str) -> None:
    sys.stderr.write(f"{line}\n")
