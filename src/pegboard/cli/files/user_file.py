"""The user's configuration file: options and messages of the commands that change it."""

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from pegboard.cli.exit_codes import FAILED
from pegboard.cli.terminal.output import ask, complain, say, warn
from pegboard.config.files.servers_file import ServersFile, file_to_edit
from pegboard.errors import ConfigError

__all__ = [
    "ConfigOption",
    "HeaderOption",
    "JsonOption",
    "KeepSecretsOption",
    "ServerName",
    "ServerNames",
    "YesOption",
    "agree",
    "headers_in",
    "kept_references",
    "open_file",
    "own_command",
    "pairs_in",
    "say_that_it_counts",
    "say_what_is_left",
    "switch",
    "warn_of_exposed",
]

ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE", help="Configuration file (default: see `pegboard config path`)."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
KeepSecretsOption = Annotated[
    bool,
    typer.Option(
        "--keep-secrets",
        help="Leave secrets in the file, instead of moving them to the keyring or a private file.",
    ),
]
ServerName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the server.")]
ServerNames = Annotated[
    list[str], typer.Argument(metavar="NAME", help="Name of a server; several may be given.")
]


def open_file(config: str | None, *, must_exist: bool = False) -> ServersFile:
    """Return the file that servers are read from, or a new one where it would be.

    Raises:
        ConfigError: when it cannot be read, or must exist and does not.
    """
    file = ServersFile(file_to_edit(config))
    if must_exist and file.is_new:
        problem = "The configuration file does not exist."
        if config is None:
            problem += (
                " `pegboard import` imports the servers of your MCP clients, and `pegboard add` "
                "adds one."
            )
        raise ConfigError(problem, path=str(file.path), is_missing=True)
    return file


def agree(question: str, *, yes: bool, default: bool = False, otherwise: str = "--yes") -> None:
    """Continue only if the user agrees, or agreed on the command line.

    Raises:
        typer.Exit: when the user does not agree, or there is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        complain(f"{question} There is no terminal to ask on; `{otherwise}` answers yes.")
    elif ask(question, default=default):
        return
    else:
        warn("Nothing was changed.")
    raise typer.Exit(FAILED)


def kept_references(file: ServersFile) -> dict[str, None]:
    """Return the references of a file's servers to secrets that are kept elsewhere, in order."""
    return dict.fromkeys(file.kept_references())


def say_what_is_left(before: Iterable[str], file: ServersFile) -> None:
    """Name the secrets that are still kept although no server of the file uses them."""
    now = kept_references(file)
    for reference in before:
        if reference not in now:
            warn(f"A secret that no server uses any more is still stored: {reference}")


def say_that_it_counts(file: ServersFile) -> None:
    """Say that a running gateway reloads the file, if one serves it."""
    from pegboard.server.process.instance_discovery import running_instances  # noqa: PLC0415 - once all is done

    path = str(file.path.resolve())
    if any(it.config == path for it in running_instances()):
        warn("The running gateway reloads this file by itself.")


def switch(names: Iterable[str], config: str | None, *, on: bool) -> None:
    """Enable or disable servers, all or none of them, and say so.

    Raises:
        ConfigError: when there is no such file.
        ServerNotFoundError: when there is no such server.
    """
    file = open_file(config, must_exist=True)
    changed = {name: file.switch(name, on=on) for name in dict.fromkeys(names)}
    if any(changed.values()):
        file.save()
    state = "enabled" if on else "disabled"
    for name, is_new in changed.items():
        if is_new:
            say(f"Server {name!r} is now {state}.")
        else:
            warn(f"Server {name!r} is already {state}.")
    if any(changed.values()):
        say_that_it_counts(file)


def warn_of_exposed(paths: Iterable[Path]) -> None:
    """Say that other users can read secrets in these files, and how to change that."""
    for path in dict.fromkeys(paths):
        warn(
            f"warning: {path} has secrets in plain text, and other users of this machine can read "
            f"it: `chmod 600 {quote(str(path))}`."
        )


HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME=VALUE", help="HTTP header. Can be repeated."),
]


def headers_in(given: Iterable[str] | None) -> dict[str, str]:
    """Return headers by name; ``NAME: VALUE``, as curl takes it, is accepted too.

    Raises:
        typer.BadParameter: when a header has another form.
    """
    as_pairs = (
        text.replace(":", "=", 1) if ":" in text.partition("=")[0] else text for text in given or ()
    )
    return {name: value.strip() for name, value in pairs_in(as_pairs, "--header").items()}


def pairs_in(given: Iterable[str], option: str) -> dict[str, str]:
    """Return values by name.

    Raises:
        typer.BadParameter: when one has no name.
    """
    found: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            # Not quoted: it may be a secret that lost its name.
            raise typer.BadParameter(f"`{option}` takes NAME=VALUE.")
        found[name.strip()] = value
    return found


def own_command() -> list[str]:
    """Return how this program is started from anywhere."""
    name = "pegboard.exe" if sys.platform == "win32" else "pegboard"
    beside = Path(sys.executable).parent / name
    if beside.is_file():
        return [str(beside)]
    found = shutil.which("pegboard")
    if found is not None:
        return [str(Path(found).absolute())]
    return [sys.executable, "-m", "pegboard.cli.main"]
