"""`pegboard disconnect`: take Pegboard out of the configuration of a client."""

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


def disconnect_clients(clients: ClientNames = None, *, every: EveryClient = False) -> None:
    """Take Pegboard out of the configuration of a client again: the file is as it was."""
    machine = Machine.here()
    failed = done = False
    for client in chosen(clients, machine, every=every):
        try:
            with waiting(f"Bringing back the file of {client.title}"):
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
            warn("Pegboard is in the file of no client.")
        raise typer.Exit(NOT_FOUND)


def _tell(title: str, undone: Disconnected) -> None:
    _tell_result(title, undone)
    for path in undone.left:
        warn(f"{path} could not be removed; nothing needs it any more: remove it by hand.")


def _tell_result(title: str, undone: Disconnected) -> None:
    if undone.is_identical:
        state = "as it was" if undone.path.exists() else "gone again: there was none before"
        say(f"{title}: {undone.path} is {state}.")
        return
    if undone.path.exists():
        say(f"{title}: Pegboard is out of {undone.path}; whatever else was changed there stays.")
    else:
        say(f"{title}: {undone.path} is gone: somebody removed it.")
    if undone.put_back:
        say(f"{title}: there again: {', '.join(undone.put_back)}.")
    if undone.backup is not None:
        warn(f"The file as it was before Pegboard: {undone.backup}")
