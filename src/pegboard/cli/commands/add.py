"""`pegboard add`: add a server to the configuration."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from shutil import which
from typing import Annotated, Any

import typer

from pegboard.cli.directory.opened import (
    NEWEST,
    OfflineOption,
    RegistryOption,
    is_registry_name,
    settings_for,
)
from pegboard.cli.files.user_file import (
    ConfigOption,
    HeaderOption,
    KeepSecretsOption,
    agree,
    headers_in,
    kept_references,
    open_file,
    own_command,
    pairs_in,
    say_that_it_counts,
    say_what_is_left,
)
from pegboard.cli.terminal.output import say, warn
from pegboard.config.secrets.kept_secrets import KeptSecret, KeptTogether
from pegboard.config.secrets.move_secrets import move_secrets

__all__ = ["add_to", "say_where_secrets_are"]

_ADDRESS = re.compile(r"(?:https?|wss?)://", re.IGNORECASE)
_OTHER_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*://")
_FILES = "appimage|app|bash|bat|bin|cjs|cmd|exe|jar|js|mjs|php|pl|ps1|py|pyz|rb|run|sh|ts"
_NAMED = r"localhost|\[[0-9A-Fa-f:.]+\]|[\w-]+(?:\.[\w-]+)+"
# With a port, with a path, alone, or without its scheme.
_HOST = re.compile(
    rf"(?:{_NAMED}|[\w-]+):\d+(?:/.*)?|(?:{_NAMED})/.*|//[^/].*"
    r"|localhost|\[[0-9A-Fa-f:.]+\]|\d+(?:\.\d+){3}"
    rf"|[\w-]+(?:\.[\w-]+)*\.(?!(?:{_FILES})$)[a-z]{{2,}}",
    re.IGNORECASE,
)
_HERE = re.compile(r"(?://)?(?:localhost|127\.|\[::1\])", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("add")(add)


def add(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of the server; alone, its name in an MCP registry.",
        ),
    ],
    target: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="URL | -- COMMAND",
            help="URL of the server; or, after `--`, a program and its arguments.",
        ),
    ] = None,
    *,
    header: HeaderOption = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Environment variable, or another value that an entry of a registry asks for; "
            "NAME alone passes on your own value. Can be repeated.",
        ),
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option(
            "--type", metavar="TYPE", help="stdio, http, sse or websocket (default: detected)."
        ),
    ] = None,
    cwd: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Working directory of the program.")
    ] = None,
    lazy: Annotated[
        bool, typer.Option("--lazy", help="Start the server at its first call.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", "--yes", help="Replace an existing server of that name.")
    ] = False,
    called: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="Name in your configuration of a server of a registry."
        ),
    ] = None,
    version: Annotated[
        str, typer.Option(metavar="VERSION", help="Version of a server of a registry.")
    ] = NEWEST,
    package: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Which offer of a registry to use: npm, pypi, oci, nuget or remote (default: what "
            "this machine can run).",
        ),
    ] = None,
    registry: RegistryOption = None,
    offline: OfflineOption = False,
    keep_secrets: KeepSecretsOption = False,
    config: ConfigOption = None,
) -> None:
    """Add a server to your configuration: a program on this machine, a URL, or from a registry.

    `pegboard find` shows the servers of a registry. What would run is shown, and nothing is run.

    pegboard add time -- uvx mcp-server-time

    pegboard add docs https://docs.example.com/mcp --header 'Authorization=Bearer …'

    pegboard add io.github.owner/server --env API_KEY
    """
    if not target:
        if not is_registry_name(name):
            raise typer.BadParameter(
                f"Write the URL of {name!r} behind it, or `--` and its command. Alone, it must be "
                "a name of an MCP registry, such as io.github.owner/server: see `pegboard find`."
            )
        if header or transport:
            raise typer.BadParameter(
                "The entry of the registry has the headers and the type; `--env` gives values."
            )
        from pegboard.cli.directory.adding import Wanted, add_from_registry  # noqa: PLC0415 - an HTTP client

        wanted = Wanted(
            name=name,
            version=version,
            package=package,
            called=called,
            values=tuple(env or ()),
            fields=_folder({}, cwd) | ({"lazy": True} if lazy else {}),
            registry=registry,
            offline=offline,
            yes=force,
            keep_secrets=keep_secrets,
        )
        add_from_registry(wanted, settings_for(config), open_file(config))
        return
    if called or package or registry or offline or version != NEWEST:
        raise typer.BadParameter(
            "`--as`, `--version`, `--package`, `--registry` and `--offline` are for a server of a "
            "registry, which has no URL or command behind its name."
        )
    entry = _entry(target, headers=header or (), variables=env or ())
    entry |= {"type": transport} if transport else {}
    entry |= _folder(entry, cwd)
    entry |= {"lazy": True} if lazy else {}
    file = open_file(config)
    for problem in file.check(name, entry):
        warn(f"warning: {problem.message}")
    if name in file.entries:
        agree(
            f"{file.path} already has a server {name!r}. Replace it?",
            yes=force,
            otherwise="--force",
        )
    kept: dict[str, KeptSecret] = {}
    left: tuple[str, ...] = ()
    is_new, before = file.is_new, kept_references(file)
    with KeptTogether(file.path) as keep:
        if not keep_secrets:
            entry, kept, left = move_secrets(name, entry, keep)
        file.put(name, entry)
        file.save()
    say(f"Added {name!r} to {file.path}{' (a new file)' if is_new else ''}.")
    _say_if_missing(entry.get("command", ""))
    _say_if_unset(env or ())
    say_where_secrets_are(name, kept, left)
    say_what_is_left(before, file)
    say_that_it_counts(file)


def say_where_secrets_are(
    server: str, kept: dict[str, KeptSecret], left: Iterable[str] = (), *, done: str = "moved"
) -> None:
    """Say where secrets were moved or copied to, and which ones the user has to move."""
    for field, place in kept.items():
        where = "the keyring" if place.where == "keyring" else "a file that only you can read"
        warn(f"The secret in `{field}` of {server!r} was {done} to {where}: {place.reference}")
    for field in left:
        warn(f"The secret in `{field}` of {server!r} is still in plain text; move it by hand.")


def _entry(
    target: list[str], *, headers: Iterable[str], variables: Iterable[str]
) -> dict[str, Any]:
    given = {"headers": headers_in(headers), "env": _variables(variables)}
    if _ADDRESS.match(target[0]):
        if len(target) > 1:
            raise typer.BadParameter("Nothing may follow a URL.")
        entry: dict[str, Any] = {"url": target[0]}
    else:
        _check_program(target[0])
        is_relative = any(it in target[0] for it in "/\\") and not target[0].startswith(("~", "$"))
        program = os.path.abspath(target[0]) if is_relative else target[0]  # noqa: PTH100 - it also takes `..` out
        # Other programs that start this entry may not find Pegboard where this shell does.
        words = own_command() if program == "pegboard" else [program]
        command, *args = [*words, *target[1:]]
        entry = {"command": command, **({"args": args} if args else {})}
    return entry | {field: pairs for field, pairs in given.items() if pairs}


def _check_program(word: str) -> None:
    """Refuse what is an address rather than a program.

    Raises:
        typer.BadParameter: when it cannot be a program.
    """
    if _OTHER_ADDRESS.match(word):
        raise typer.BadParameter(f"A URL begins with http, https, ws or wss, unlike {word!r}.")
    if _HOST.fullmatch(word) and not Path(word).exists() and which(word) is None:
        scheme = "http" if _HERE.match(word) else "https"
        address = f"{scheme}://{word.removeprefix('//')}"
        raise typer.BadParameter(
            f"There is no program {word!r} here. If it is a URL, write {address} instead."
        )


def _say_if_missing(program: str) -> None:
    if program and not program.startswith(("~", "$")) and which(program) is None:
        warn(f"There is no program {program!r} on this machine yet; `pegboard doctor` checks it.")


def _say_if_unset(variables: Iterable[str]) -> None:
    for name in variables:
        if "=" not in name and name not in os.environ:
            warn(f"The environment variable {name} is not set here; the server needs it to start.")


def _folder(entry: dict[str, Any], cwd: str | None) -> dict[str, str]:
    """Return where a program runs; the file is read from anywhere, so here is written down."""
    if cwd is None:
        words: list[str] = entry.get("args", [])
        is_here = any(_is_here(it) or _is_here(it.partition("=")[2]) for it in words)
        return {"cwd": str(Path.cwd())} if is_here else {}
    is_fixed = cwd.startswith(("~", "$"))
    return {"cwd": cwd if is_fixed else os.path.abspath(cwd)}  # noqa: PTH100 - it also takes `..` out


def _is_here(word: str) -> bool:
    """Tell whether a word names something by where it is from here."""
    return bool(word) and not Path(word).is_absolute() and os.path.exists(word)  # noqa: PTH110 - of any text


def _variables(given: Iterable[str]) -> dict[str, str]:
    own = [it for it in given if "=" not in it]
    if any(not _VARIABLE.fullmatch(it) for it in own):
        # Not quoted: it may be a secret that lost its name.
        raise typer.BadParameter(
            "`--env` takes NAME=VALUE, or the NAME of a variable that you have."
        )
    return {it: f"${{{it}}}" for it in own} | pairs_in((it for it in given if "=" in it), "--env")
