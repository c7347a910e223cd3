"""`pegboard init`: import, check and connect in one go; each stage can be skipped and undone."""

import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext

import typer

from pegboard.cli.commands.connect import connect_to
from pegboard.cli.commands.doctor import doctor
from pegboard.cli.commands.import_servers import import_from, importable_servers
from pegboard.cli.entry.command_lock import in_turn
from pegboard.cli.exit_codes import DONE, FAILED, NOT_FOUND
from pegboard.cli.files.user_file import ConfigOption, YesOption, open_file
from pegboard.cli.terminal.output import answer_to, ask, complain, say, warn
from pegboard.cli.terminal.plain_text import counted
from pegboard.clients import CLIENTS, OUR_NAME, ClientApp, Machine, files_of_clients
from pegboard.errors import PegboardError

__all__ = ["add_to", "set_up"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("init")(init)


def init(*, yes: YesOption = False, config: ConfigOption = None) -> None:
    """Set Pegboard up: import the servers of your clients, check them, and connect the clients.

    It shows the plan, then asks once before each of the three stages and says how to undo it.
    `--yes` takes every stage. `pegboard uninstall` undoes all of them.
    """
    if not yes and not sys.stdin.isatty():
        complain("There is no terminal to ask on; `--yes` takes every stage.")
        raise typer.Exit(FAILED)
    if not set_up(config, yes=yes):
        raise typer.Exit(FAILED)


def set_up(config: str | None = None, *, yes: bool = False) -> bool:
    """Take each stage that the user wants, and tell whether all of them succeeded."""
    words = ["init", *(() if config is None else ("--config", config))]
    _show_plan(config)
    with in_turn(words):
        is_imported = _import(config, yes=yes)
    checked = not _servers(config) or _check(config, yes=yes)
    wanted = _wanted(yes=yes) if _servers(config) else []
    with in_turn(words) if wanted else nullcontext():
        connected = not wanted or _connect(wanted, config, yes=yes)
    say()
    again = None if is_imported else shlex.join(["pegboard", *words])
    say(f"Next: {_next(wanted if connected else [], _servers(config), again=again)}")
    # The user who does not agree skips the stage.
    return (is_imported or not yes) and checked and connected


def _show_plan(config: str | None) -> None:
    path, found = importable_servers(config)
    present = _servers(config)
    servers = ", ".join(f"{number} from {_title(it)}" for it, number in found.items())
    clients = ", ".join(it.title for it in _clients_here())
    total = len(present) + sum(found.values())
    have = f"; {counted(len(present), 'server')} already there" if present else ""
    warn("Pegboard runs the servers of all your MCP clients; each client uses Pegboard. The plan:")
    warn(f"  1. import   {servers or 'nothing new'}, into {path}{have}")
    warn(f"  2. check    {counted(total, 'server')}: each is started once; no file is changed")
    warn(f"  3. connect  {clients or 'no client'}: each gets `{OUR_NAME}`, and keeps what it has")
    warn("Enter takes a stage and `n` skips it. `pegboard uninstall` undoes everything.")


def _title(client: str) -> str:
    return CLIENTS[client].title if client in CLIENTS else client


def _clients_here() -> list[ClientApp]:
    machine = Machine.here()
    return [it for it in CLIENTS.values() if it.is_here(machine)]


def _import(config: str | None, *, yes: bool) -> bool:
    _begin(1, "import the servers of your MCP clients")
    if not files_of_clients(Machine.here()):
        warn("No client's file was found.")
        return True
    before = _servers(config)
    code = _code_of(lambda: import_from(yes=yes, config=config, asks_once=True))
    new = [it for it in _servers(config) if it not in before]
    # Otherwise another command has added them while this one asked.
    if new and code == DONE:
        where = f" --config {shlex.quote(config)}" if config else ""
        warn(f"Undo this stage: `pegboard remove {shlex.join(new)}{where}`")
    return code in (DONE, NOT_FOUND)


def _check(config: str | None, *, yes: bool) -> bool:
    _begin(2, "start each server once, to see whether it works")
    if not yes and not ask("Start your servers now?", default=True):
        return True
    is_ok = _code_of(lambda: doctor(config=config)) == DONE
    if not is_ok:
        warn("`pegboard disable NAME` leaves a server out until it works.")
    warn("There is nothing to undo: this stage changes no configuration.")
    return is_ok


def _wanted(*, yes: bool) -> list[ClientApp]:
    _begin(3, "connect your MCP clients to Pegboard")
    found = _clients_here()
    if not found:
        warn("No client was found.")
    return found if yes or not found else _chosen(found)


def _chosen(found: list[ClientApp]) -> list[ClientApp]:
    """Ask which clients to connect: all, none, or those that are named."""
    titles = ", ".join(it.title for it in found)
    more = f", or names such as {found[0].name}" if len(found) > 1 else ""
    while True:
        answer = answer_to(f"Connect {titles}? [Y/n{more}] ")
        words = [] if answer is None else answer.replace(",", " ").casefold().split()
        if answer is None or words in (["n"], ["no"]):
            return []
        if words in ([], ["y"], ["yes"]):
            return found
        named = [it for it in found if it.name in words]
        if len(named) == len(set(words)):
            return named
        warn(f"That was not understood; the names are {', '.join(it.name for it in found)}.")


def _connect(clients: list[ClientApp], config: str | None, *, yes: bool) -> bool:
    # It says for each client how to undo that, and which of its own servers are double now.
    names = [it.name for it in clients]
    return _code_of(lambda: connect_to(names, yes=yes, config=config)) == DONE


def _next(connected: list[ClientApp], servers: list[str], *, again: str | None) -> str:
    if connected:
        titles = ", ".join(it.title for it in connected)
        return f"restart {titles}. From then on, your client starts Pegboard by itself."
    if servers:
        return "run `pegboard serve`, and give your client the address that it prints."
    if again is not None:
        return f"run `{again}` again to import the servers of your clients."
    return "run `pegboard add time -- uvx mcp-server-time` to add a server."


def _begin(number: int, what: str) -> None:
    warn(f"\nStage {number} of 3: {what}.")


def _servers(config: str | None) -> list[str]:
    return list(open_file(config).entries)


def _code_of(step: Callable[[], object]) -> int:
    """Run a command, and return its exit code; it has said itself what went wrong."""
    try:
        step()
    except typer.Exit as end:
        return end.exit_code
    except (PegboardError, typer.BadParameter) as error:
        complain(str(error))
        return FAILED
    return DONE
