"""`pegboard uninstall`: disconnect every client, and remove all that Pegboard keeps."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from pegboard.cli.commands.disconnect import disconnect_clients
from pegboard.cli.commands.service import installed_service
from pegboard.cli.commands.service import uninstall as uninstall_service
from pegboard.cli.exit_codes import FAILED
from pegboard.cli.files.belongings import (
    Belongings,
    find_belongings,
    remove_belongings,
    remove_empty_above,
)
from pegboard.cli.files.user_file import YesOption, agree
from pegboard.cli.service.service_managers import NoServiceError
from pegboard.cli.terminal.output import ask, complain, say, warn
from pegboard.cli.terminal.plain_text import counted
from pegboard.clients import Machine
from pegboard.server.process.instance_discovery import RunningInstance, running_instances

__all__ = ["add_to"]

_PATIENCE = 60.0
_PAUSE = 0.1
_MOST_NAMED = 20


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("uninstall")(uninstall)


def uninstall(
    *,
    yes: YesOption = False,
    keep_config: Annotated[
        bool,
        typer.Option(
            "--keep-config", help="Keep your configuration, and the secrets that it refers to."
        ),
    ] = False,
) -> None:
    """Undo everything: restore the files of your clients, and remove all that Pegboard keeps.

    It lists everything first and asks. Your configuration is a question of its own; `--yes` removes
    it if a command of Pegboard made it. What Pegboard did not write stays, and is listed: files of
    yours in its folders, a configuration of your own, the `mcp.json` of a project.
    """
    service = installed_service()
    of_service = None
    with suppress(NoServiceError):
        of_service = None if service is None else service.state().pid
    for gateway in running_instances():
        if gateway.pid != of_service:
            _stop(gateway, asks=not yes)
    machine = Machine.here()
    found = find_belongings(machine)
    if not found and service is None:
        warn("There is nothing to remove.")
        _name_others(found.others)
        return
    keep_config |= yes and not found.config_is_made
    _show(found, None if service is None else service.path, keeps=keep_config, asks=not yes)
    agree("Remove all this?", yes=yes)
    if found.config is not None and not keep_config and not yes:
        keep_config = not ask(f"Also remove your configuration {found.config}, and its secrets?")
    if service is not None:
        uninstall_service(yes=True)
        remove_empty_above(service.path, machine.home)
    _disconnect(found)
    left = remove_belongings(found, machine, keeps_config=keep_config)
    if found.config is not None and keep_config:
        say(f"Kept: {found.config}, and the secrets that it refers to.")
    for it in left:
        complain(f"This could not be removed: {it}")
    if left:
        raise typer.Exit(FAILED)
    keeps = found.config is not None and keep_config
    say("Everything else of Pegboard was removed." if keeps else "Everything was removed.")
    _name_others(found.others)
    titles = ", ".join(it.title for it, _ in found.clients)
    if titles:
        warn(f"Restart {titles}: until then, a Pegboard that was started there still runs.")
    warn("Next: remove the program itself, as you installed it: `pip uninstall pegboard`,")
    warn("`uv tool uninstall pegboard`, `pipx uninstall pegboard`, or delete the checkout.")


def _disconnect(found: Belongings) -> None:
    """Restore the files of clients.

    Raises:
        typer.Exit: when that is not possible. The backups are needed then, so they must stay.
    """
    try:
        if found.clients:
            disconnect_clients([it.name for it, _ in found.clients])
    except typer.Exit as end:
        if end.exit_code == FAILED:
            complain("Nothing else was removed.")
            raise


def _stop(gateway: RunningInstance, *, asks: bool) -> None:
    """Stop a running gateway if the user agrees.

    Raises:
        typer.Exit: when it goes on running.
    """
    runs = f"A gateway runs at {gateway.address}, as process {gateway.pid}."
    if not asks or not sys.stdin.isatty():
        complain(f"{runs} Stop it first, for example with `kill {gateway.pid}`.")
        raise typer.Exit(FAILED)
    if ask(f"{runs} Stop it?", default=True):
        os.kill(gateway.pid, signal.SIGTERM)
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if all(it.pid != gateway.pid for it in running_instances()):
                return
            time.sleep(_PAUSE)
        complain(f"Process {gateway.pid} has not stopped for a minute.")
    raise typer.Exit(FAILED)


def _show(found: Belongings, service: Path | None, *, keeps: bool, asks: bool) -> None:
    say("To be removed:")
    if service is not None:
        say(f"  the service that runs the gateway: {service}")
    for client, path in found.clients:
        say(f"  the entry in {client.title}: {path}; servers that `connect` removed come back")
    if found.keyring:
        say(f"  the keyring: {counted(len(found.keyring), 'secret')}")
    for folder in found.folders:
        number = sum(it.is_relative_to(folder) for it in found.files)
        if number:
            say(f"  {folder}: {counted(number, 'file')}")
    for script in found.completion:
        say(f"  {script}: completion of your shell")
    if found.config is not None:
        _show_config(found.config, keeps=keeps, asks=asks)
    _name_others(found.others, "Not to be removed")


def _show_config(config: Path, *, keeps: bool, asks: bool) -> None:
    if keeps:
        say(f"Not to be removed: your configuration {config}, and the secrets it refers to")
    elif asks:
        say(f"Asked separately: your configuration {config}")
    else:
        say(f"  your configuration: {config}")


def _name_others(others: Sequence[Path], what: str = "Left") -> None:
    """Say which files in Pegboard's folders were left, because Pegboard did not write them."""
    for it in others[:_MOST_NAMED]:
        say(f"{what}, because Pegboard did not make it: {it}")
    if len(others) > _MOST_NAMED:
        say(f"… and {counted(len(others) - _MOST_NAMED, 'more file')}")
