"""`pegboard connect`: add Pegboard to the configuration of an MCP client."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
import typer

from pegboard.cli.catalogue.address_check import warn_of_address
from pegboard.cli.catalogue.running_gateway import find_gateway
from pegboard.cli.exit_codes import FAILED, NOT_FOUND
from pegboard.cli.files.user_file import (
    ConfigOption,
    HeaderOption,
    YesOption,
    headers_in,
    own_command,
    warn_of_exposed,
)
from pegboard.cli.terminal.output import ask, complain, say, warn
from pegboard.cli.terminal.plain_text import NOT_ON_WINDOWS, counted
from pegboard.cli.terminal.spinner import waiting
from pegboard.clients import (
    CLIENTS,
    OUR_NAME,
    ClientApp,
    ImportRecord,
    Machine,
    client_named,
    connect,
    has_other_entry,
    is_exposed,
    own_servers,
    served_by_us,
    taken_out_of,
)
from pegboard.config import ServerConfig, load_servers, locate_config
from pegboard.errors import ConfigError
from pegboard.errors.extras import install_tool
from pegboard.upstream.http.headers import checked_headers

__all__ = ["ClientNames", "EveryClient", "add_to", "chosen", "connect_to"]

ClientNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CLIENT",
        help=f"One or more of {', '.join(CLIENTS)}.",
        autocompletion=lambda: list(CLIENTS),
    ),
]
_PORTS = {"http": 80, "https": 443}
EveryClient = Annotated[bool, typer.Option("--all", help="Every client that is found.")]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("connect")(connect_clients)


def connect_clients(
    clients: ClientNames = None,
    *,
    every: EveryClient = False,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Let the client start Pegboard (the default).")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Let the client use the running gateway at this URL."),
    ] = None,
    header: HeaderOption = None,
    only: Annotated[
        bool,
        typer.Option("--only", help="Remove the client's own servers that Pegboard serves."),
    ] = False,
    yes: YesOption = False,
    config: ConfigOption = None,
) -> None:
    """Add Pegboard to the configuration of a client; `pegboard disconnect` undoes it."""
    if stdio and url:
        raise typer.BadParameter("`--stdio` and `--url` exclude each other.")
    connect_to(
        clients,
        every=every,
        url=url,
        headers=headers_in(header),
        only=only or (False if yes else None),
        yes=yes,
        config=config,
    )


def connect_to(
    clients: list[str] | None,
    *,
    every: bool = False,
    url: str | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    only: bool | None = False,
    yes: bool = False,
    config: str | None = None,
) -> None:
    """Connect clients as the command does; with ``only=None``, ask about their own servers.

    Raises:
        typer.Exit: when there is no client, or one could not be connected.
        typer.BadParameter: when what is asked for cannot be done.
    """
    headers = dict(headers)
    if url is not None:
        _check_address(url, headers)
    else:
        _check_program(headers)
    machine = Machine.here()
    source = locate_config(config).path
    servers = _served(source, url, is_needed=bool(only))
    if not servers and url is None:
        warn("Pegboard has no servers yet; `pegboard import` imports those of your clients.")
    failed = False
    wanted = chosen(clients, machine, every=every)
    if not wanted:
        warn(f"No client was found; name one of {', '.join(CLIENTS)}.")
        raise typer.Exit(NOT_FOUND)
    _check_file(source, url, [it.file(machine) for it in wanted])
    if url is not None:
        warn_of_address(url, headers)
    for client in wanted:
        try:
            entry = _program(client, source) if url is None else client.address_entry(url, headers)
            superfluous = _superfluous(client, machine, servers, source)
            _one(client, machine, entry, superfluous, only=only, asks=not yes)
            if only:
                _tell_what_stays(client, machine, superfluous, source)
            warn_of_exposed(it for it in [client.file(machine)] if headers and is_exposed(it))
        except ConfigError as error:
            complain(str(error))
            failed = True
    if failed:
        raise typer.Exit(FAILED)


def chosen(names: list[str] | None, machine: Machine, *, every: bool) -> list[ClientApp]:
    """Return the clients that the command line names.

    Raises:
        typer.BadParameter: when it names none, or an unknown one.
    """
    if every == bool(names):
        raise typer.BadParameter(f"Name a client ({', '.join(CLIENTS)}), or use `--all`.")
    if every:
        return [it for it in CLIENTS.values() if it.is_here(machine)]
    try:
        return [client_named(it) for it in dict.fromkeys(names or ())]
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None


def _one(
    client: ClientApp,
    machine: Machine,
    entry: dict[str, Any],
    superfluous: tuple[str, ...],
    *,
    only: bool | None,
    asks: bool,
) -> None:
    if not client.is_here(machine):
        warn(f"{client.title} does not seem to be installed; {client.file(machine)} is created.")
    if asks and has_other_entry(client, machine):
        _agree_to_replace(client, machine)
    out = taken_out_of(client, machine)
    there = [it for it in superfluous if it not in set(out)]
    if there and only is None:
        names = ", ".join(there)
        only = ask(
            f"{client.title} has servers that Pegboard serves now: {names}. Remove them there?"
        )
    kept = () if only else there
    unwanted = [it for it in superfluous if it not in set(kept)]
    with waiting(f"Writing the file of {client.title}"):
        done = connect(client, machine, entry, take_out=unwanted)
    say(f"{client.title}: Pegboard was added to {done.path}.")
    if done.taken_out:
        say(f"{client.title}: removed: {', '.join(done.taken_out)}.")
    elif only:
        warn(f"{client.title}: nothing was removed; Pegboard serves none of its servers.")
    back = [it for it in out if it not in done.taken_out]
    if back:
        names = ", ".join(back)
        say(f"{client.title}: restored, because Pegboard may not serve them: {names}.")
    if kept:
        count = counted(len(kept), "server")
        warn(
            f"{client.title} still has {count} that Pegboard also serves; "
            "`pegboard connect` with `--only` removes them."
        )
    if done.backup is not None:
        warn(f"Backup of the file: {done.backup}")
    warn(f"Restart {client.title}; `pegboard disconnect {client.name}` undoes this.")


def _tell_what_stays(
    client: ClientApp, machine: Machine, removed: tuple[str, ...], source: Path | None
) -> None:
    """Say which servers `--only` left in the client's file, and why."""
    there = own_servers(client, machine)
    if not set(there) - set(removed):
        return
    ours = () if source is None else load_servers(source, undefined="keep").servers
    known = [msgspec.structs.replace(it, enabled=True) for it in ours]
    off = [it for it, written in zip(known, ours, strict=True) if not written.enabled]
    disabled = _superfluous(client, machine, tuple(off), source)
    imported = _superfluous(client, machine, tuple(known), source)
    left: list[str] = []
    for name, is_valid in there.items():
        if name in removed:
            continue
        reason = "not imported" if is_valid else "unusable"
        if name in disabled:
            reason = "disabled in Pegboard"
        elif name in imported:
            reason = "unusable in Pegboard's file"
        left.append(f"{name}: {reason}")
    warn(f"{client.title} keeps {counted(len(left), 'server')} of its own ({', '.join(left)}).")


def _superfluous(
    client: ClientApp, machine: Machine, servers: tuple[ServerConfig, ...], source: Path | None
) -> tuple[str, ...]:
    """Return the client's own servers that Pegboard serves."""
    with waiting(f"Reading the file of {client.title}"):
        return served_by_us(client, machine, servers, imported=ImportRecord(source))


def _agree_to_replace(client: ClientApp, machine: Machine) -> None:
    """Raise an error unless a person agrees that another server gives way to Pegboard."""
    found = f"{client.file(machine)} has a server {OUR_NAME!r} that is not Pegboard"
    if not sys.stdin.isatty():
        raise ConfigError(f"{found}. With `--yes`, Pegboard replaces it until you disconnect.")
    if not ask(f"{found}. Replace it with Pegboard until you disconnect?"):
        raise ConfigError(f"{client.title}: nothing was changed.")


def _served(source: Path | None, url: str | None, *, is_needed: bool) -> tuple[ServerConfig, ...]:
    """Return what a client would get from Pegboard, as far as it is known."""
    if url is not None and not _is_served_from(source, url):
        if is_needed:
            gateway = find_gateway(source, None)
            first = (
                "Start `pegboard serve` first"
                if gateway is None
                else f"Your gateway runs at {gateway.address}: use `--url {gateway.address}/mcp`"
            )
            raise typer.BadParameter(
                "`--only` removes the servers that Pegboard serves, but Pegboard does not know "
                f"what the gateway at that URL serves. {first}, or leave out `--only`."
            )
        return ()
    if source is None:
        return ()
    loaded = load_servers(source)
    errors = [it.server for it in loaded.problems if it.severity == "error"]
    if errors and is_needed:
        names = ", ".join(dict.fromkeys(it for it in errors if it is not None))
        warn(f"{source} has errors{f' in {names}' if names else ''}; see `pegboard doctor`.")
    usable = {it.name for it in loaded.servers if it.enabled}
    # As it is written there: so it is compared with what is written in the files of clients.
    written = load_servers(source, undefined="keep").servers
    return tuple(it for it in written if it.name in usable)


def _check_file(source: Path | None, url: str | None, files: list[Path]) -> None:
    """Refuse where Pegboard would be one of the servers that it serves itself."""
    if source is None or source.resolve() not in {it.resolve() for it in files}:
        return
    if url is None or _is_served_from(source, url):
        raise typer.BadParameter(
            f"{source} is the client's own file: with Pegboard in it, Pegboard would serve itself. "
            "Run `pegboard import` to copy its servers into Pegboard's own file, and connect "
            "without that `--config`."
        )


def _check_program(headers: dict[str, str]) -> None:
    """Refuse where no client could start this program, and warn where it may be gone tomorrow."""
    if headers:
        raise typer.BadParameter("`--header` requires `--url`: a program takes no headers.")
    if sys.platform == "win32":
        complain(f"{NOT_ON_WINDOWS} `--url` takes the address of a gateway that runs there.")
        raise typer.Exit(FAILED)
    if "archive-v0" in own_command()[0]:
        warn(
            "This Pegboard runs from the cache of uv, which may be cleared: run "
            f"`{install_tool()}`, and connect with the installed one."
        )


def _check_address(url: str, headers: dict[str, str]) -> None:
    """Refuse what no client could use."""
    try:
        ServerConfig(name=OUR_NAME, transport="streamable_http", url=url)
        checked_headers(headers)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None


def _is_served_from(source: Path | None, url: str) -> bool:
    """Tell whether an address is that of a gateway that runs, and serves all of this file."""
    gateway = find_gateway(source, None)
    faces = ("/mcp", "/mcp-search", "/mcp-full", "/sse")
    return gateway is not None and any(
        _is_same_address(url, f"{gateway.address}{it}") for it in faces
    )


def _is_same_address(one: str, other: str) -> bool:
    """Tell whether two addresses lead to one place, however this machine is called in them."""
    first, second = urlsplit(one), urlsplit(other)
    hosts = {first.hostname, second.hostname}
    # People write each of these and mean the other.
    is_here = len(hosts) == 1 or hosts in ({"localhost", "127.0.0.1"}, {"localhost", "::1"})
    places = [
        (it.scheme, it.port or _PORTS.get(it.scheme), it.path.rstrip("/"), it.query)
        for it in (first, second)
    ]
    return is_here and places[0] == places[1]


def _program(client: ClientApp, source: Path | None) -> dict[str, Any]:
    command, *args = own_command()
    args += ["serve", "--stdio"]
    if source is not None:
        # The client starts it in a folder of its own choice.
        args += ["--config", str(source)]
    return client.program_entry(command, args)
