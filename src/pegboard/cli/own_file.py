"""What the commands share that change the user's own file of servers."""

import sys
from typing import Annotated

import typer

from pegboard.cli.exit_codes import FAILED
from pegboard.cli.output import ask, complain, warn
from pegboard.config.servers_file import ServersFile, file_to_edit

__all__ = [
    "ConfigOption",
    "JsonOption",
    "KeepSecretsOption",
    "ServerName",
    "YesOption",
    "agree",
    "open_file",
    "say_that_it_counts",
]


ConfigOption = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="The file (mcp.json, looked for).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
KeepSecretsOption = Annotated[
    bool,
    typer.Option(
        "--keep-secrets", help="Leave secrets in the file instead of moving them out of it."
    ),
]
ServerName = Annotated[str, typer.Argument(metavar="NAME", help="The server.")]


def open_file(config: str | None) -> ServersFile:
    """Return the file that servers are read from, or a new one where it would be.

    Raises:
        ConfigError: when it cannot be read.
    """
    return ServersFile(file_to_edit(config))


def agree(question: str, *, yes: bool, otherwise: str = "--yes") -> None:
    """Go on only if a person agrees, or said so beforehand.

    Raises:
        typer.Exit: when they do not, or when nobody is there to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        complain(f"{question} Nobody is here to answer; `{otherwise}` says yes.")
    elif ask(question):
        return
    else:
        warn("Nothing was changed.")
    raise typer.Exit(FAILED)


def say_that_it_counts() -> None:
    """Say that nobody has to be told."""
    warn("A gateway that serves this file reads it again by itself.")
