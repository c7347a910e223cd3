"""`pegboard add`: add a server to the configuration."""

import re
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from pegboard.cli.output import say, warn
from pegboard.cli.own_file import (
    ConfigOption,
    KeepSecretsOption,
    agree,
    open_file,
    say_that_it_counts,
)
from pegboard.config.interpret import RawEntry, Surroundings, interpret
from pegboard.config.kept_secrets import KeptSecret, KeptTogether
from pegboard.config.move_secrets import move_secrets
from pegboard.config.servers_file import ServersFile
from pegboard.config.variables import Variables
from pegboard.errors import ConfigError

__all__ = ["add_to", "say_where_secrets_are"]

_ADDRESS = re.compile(r"(?:https?|wss?)://", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("add")(add)


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call the server.")],
    target: Annotated[
        list[str],
        typer.Argument(
            metavar="URL | -- COMMAND",
            help="Its address; or, behind `--`, a program and its arguments.",
        ),
    ],
    *,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An HTTP header; may be given several times."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A variable of the program; NAME alone hands on your own. May be repeated.",
        ),
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option("--type", help="stdio, http, sse or websocket; left out, it is told."),
    ] = None,
    cwd: Annotated[str | None, typer.Option(help="Where the program runs.")] = None,
    lazy: Annotated[bool, typer.Option("--lazy", help="Start it when it is first called.")] = False,
    force: Annotated[
        bool, typer.Option("--force", "--yes", help="Replace a server of that name.")
    ] = False,
    keep_secrets: KeepSecretsOption = False,
    config: ConfigOption = None,
) -> None:
    """Add a server to your configuration: a program on this machine, or an address.

    pegboard add time -- uvx mcp-server-time

    pegboard add docs https://docs.example.com/mcp --header 'Authorization=Bearer …'
    """
    entry = _entry(target, headers=header or (), variables=env or ())
    entry |= {"type": transport} if transport else {}
    entry |= {"cwd": cwd} if cwd else {}
    entry |= {"lazy": True} if lazy else {}
    file = open_file(config)
    _check(name, entry, file)
    if name in file.entries:
        agree(f"{file.path} has a server {name!r}; replace it?", yes=force, otherwise="--force")
    kept: dict[str, KeptSecret] = {}
    left: tuple[str, ...] = ()
    is_new = file.is_new
    with KeptTogether() as keep:
        if not keep_secrets:
            entry, kept, left = move_secrets(name, entry, keep)
        file.put(name, entry)
        file.save()
    say(f"Added {name!r} to {file.path}{' (a new file)' if is_new else ''}.")
    say_where_secrets_are(name, kept, left)
    say_that_it_counts()


def say_where_secrets_are(
    server: str, kept: dict[str, KeptSecret], left: Iterable[str] = ()
) -> None:
    """Say where secrets went, and which ones a person has to move."""
    for field, place in kept.items():
        where = "the keyring" if place.where == "keyring" else "a file that only you can read"
        warn(f"The secret in `{field}` of {server!r} is in {where} now: {place.reference}")
    for field in left:
        warn(f"The secret in `{field}` of {server!r} stands in plain text; move it by hand.")


def _entry(
    target: list[str], *, headers: Iterable[str], variables: Iterable[str]
) -> dict[str, Any]:
    given = {"headers": _pairs(headers, "--header"), "env": _variables(variables)}
    if _ADDRESS.match(target[0]):
        if len(target) > 1:
            raise typer.BadParameter("Behind an address nothing more is expected.")
        entry: dict[str, Any] = {"url": target[0]}
    else:
        entry = {"command": target[0], **({"args": target[1:]} if len(target) > 1 else {})}
    return entry | {field: pairs for field, pairs in given.items() if pairs}


def _variables(given: Iterable[str]) -> dict[str, str]:
    own = [it for it in given if "=" not in it]
    if any(not _VARIABLE.fullmatch(it) for it in own):
        # Not quoted: it may be a secret that lost its name.
        raise typer.BadParameter("`--env` takes NAME=VALUE, or the NAME of a variable of yours.")
    return {it: f"${{{it}}}" for it in own} | _pairs((it for it in given if "=" in it), "--env")


def _pairs(given: Iterable[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if option == "--header" and ":" in name:
            # As curl has it.
            name, separator, value = text.partition(":")
        if not separator or not name.strip():
            raise typer.BadParameter(f"`{option}` takes NAME=VALUE.")
        found[name.strip()] = value.strip() if option == "--header" else value
    return found


def _check(name: str, entry: dict[str, Any], file: ServersFile) -> None:
    """Refuse what could not be read from the file again."""
    variables = Variables(environ={}, undefined="keep", reads_secrets=False)
    reading = interpret(RawEntry(name, entry), Surroundings(variables, file.path.parent))
    for problem in reading.problems:
        if problem.severity == "error":
            raise ConfigError(problem.message)
        if problem.kind != "plain_secret":
            warn(f"warning: {problem.message}")
