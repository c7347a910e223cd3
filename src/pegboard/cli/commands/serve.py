"""`pegboard serve`: one MCP endpoint in front of all servers of a configuration."""

import sys
from typing import Annotated, Literal

import typer

from pegboard.cli.catalogue.tool_options import calculate_on_one_core
from pegboard.cli.entry.signals import hear_signals_as_usual
from pegboard.cli.exit_codes import FAILED
from pegboard.cli.terminal.output import ask, complain
from pegboard.cli.terminal.plain_text import NOT_ON_WINDOWS
from pegboard.config import locate_config

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("serve")(serve)


def serve(
    *,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Configuration file (default: see `pegboard config path`)."
        ),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve four small demo servers.")] = False,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Serve over standard input and output.")
    ] = False,
    host: Annotated[str, typer.Option(metavar="NAME", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65_535, help="Port; 0 picks a free one.")
    ] = 8765,
    surface: Annotated[
        Literal["search", "full"],
        typer.Option(
            help="What /mcp lists: a few tools that find and call the others, or all tools."
        ),
    ] = "search",
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Store for keys, registered tools and usage "
            "(default: PEGBOARD_STORE, or your own store).",
        ),
    ] = None,
    audit: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also write the audit log to this file.")
    ] = None,
    allow_anonymous: Annotated[
        bool,
        typer.Option(
            "--allow-anonymous",
            help="Serve other machines without authentication.",
        ),
    ] = False,
    allow_register: Annotated[
        bool,
        typer.Option(
            "--allow-register",
            help="Let clients without a key register tools over HTTP.",
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Host name by which clients reach this server. Can be repeated.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Origin of web pages that may use this server, such as https://app.example.com. "
            "Can be repeated.",
        ),
    ] = None,
    drain: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Time that running calls get to finish at shutdown.",
        ),
    ] = 30.0,
    notice: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Time at shutdown in which /readyz fails and requests are still accepted.",
        ),
    ] = 0.0,
    activity: Annotated[
        bool | None,
        typer.Option(
            "--activity/--quiet",
            help="Show a line for each client, call and server event (default: on a terminal).",
            show_default=False,
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Log more than warnings, reloads and shutdown.")
    ] = False,
) -> None:
    """Serve all tools at one MCP endpoint until you press Ctrl-C.

    Give HTTP clients the address that it prints. For clients that start programs,
    `pegboard connect CLIENT` writes `pegboard serve --stdio` into their configuration file.
    """
    if sys.platform == "win32":
        complain(NOT_ON_WINDOWS)
        raise typer.Exit(FAILED)
    if not demo and not stdio and config is None:
        _offer_to_set_up()
    calculate_on_one_core()
    # A second to import, which neither `--help` nor completion should wait for.
    from pegboard.cli.serving import ServeChoices, run  # noqa: PLC0415

    choices = ServeChoices(
        config=config,
        demo=demo,
        stdio=stdio,
        host=host,
        port=port,
        surface=surface,
        store=store,
        audit=audit,
        allow_anonymous=allow_anonymous,
        allow_register=allow_register,
        allow_host=tuple(allow_host or ()),
        allow_origin=tuple(allow_origin or ()),
        drain=drain,
        notice=notice,
        activity=activity,
        verbose=verbose,
    )
    raise typer.Exit(run(choices))


def _offer_to_set_up() -> None:
    """Offer `pegboard init` on a terminal if there is no configuration."""
    if not sys.stdin.isatty() or not sys.stderr.isatty() or locate_config().path is not None:
        return
    hear_signals_as_usual()
    if not ask("You have no configuration yet. Set Pegboard up now?", default=True):
        return
    from pegboard.cli.commands.init import set_up  # noqa: PLC0415 - only without a configuration

    set_up()
