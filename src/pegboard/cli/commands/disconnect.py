"""`pegboard disconnect`: remove Pegboard from the configuration of an MCP client."""

from typing import Annotated

import typer

from pegboard.cli.commands.connect import ClientNames, EveryClient, chosen
from pegboard.cli.exit_codes import FAILED, NOT_FOUND
from pegboard.cli.terminal.output import complain, say, warn
from pegboard.cli.terminal.spinner import waiting
from pegboard.clients import Disconnected, Machine, disconnect
from pegboard.errors import ConfigError

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("disconnect")(disconnect_clients)


def disconnect_clients(
    clients: ClientNames = None,
    *,
    every: EveryClient = False,
    # For scripts that give it to each command.
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Accepted as elsewhere; this command never asks.")
    ] = False,
) -> None:
    """Remove Pegboard from the configuration of a client, and restore the file."""
    machine = Machine.here()
    failed = done = False
    for client in chosen(clients, machine, every=every):
        try:
            with waiting(f"Restoring the file of {client.title}"):
                undone = disconnect(client, machine)
        except ConfigError as error:
            complain(str(error))
            failed = True
            continue
        if undone is not None:
            _tell(client.title, undone)
            done = True
        elif not every:
            warn(f"{client.title}: Pegboard is not in {client.file(machine)}.")
    if failed:
        raise typer.Exit(FAILED)
    if not done:
        if every:
            warn("No client's file contains Pegboard.")
        raise typer.Exit(NOT_FOUND)


def _tell(title: str, undone: Disconnected) -> None:
    _tell_result(title, undone)
    for path in undone.left:
        warn(f"{path} is no longer needed, but could not be removed: delete it by hand.")


def _tell_result(title: str, undone: Disconnected) -> None:
    if undone.is_identical:
        state = "is as it was" if undone.path.exists() else "was removed; it did not exist before"
        say(f"{title}: {undone.path} {state}.")
        return
    if undone.path.exists():
        say(f"{title}: Pegboard was removed from {undone.path}; other changes there stay.")
    else:
        say(f"{title}: {undone.path} no longer exists.")
    if undone.put_back:
        say(f"{title}: restored: {', '.join(undone.put_back)}.")
    if undone.backup is not None:
        warn(f"Backup of the file before Pegboard: {undone.backup}")
