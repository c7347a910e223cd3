"""`pegboard serve`: one MCP endpoint in front of all servers of a configuration."""

import sys
from typing import Annotated, Literal

import typer

from pegboard.cli.catalogue.tool_options import calculate_on_one_core
from pegboard.cli.exit_codes import FAILED
from pegboard.cli.terminal.output import complain
from pegboard.cli.terminal.plain_text import NOT_ON_WINDOWS

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("serve")(serve)


def serve(
    *,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="The servers (mcp.json, looked for).")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve four small servers, to try it.")
    ] = False,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Talk to the program that started this one.")
    ] = False,
    host: Annotated[str, typer.Option(metavar="NAME", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65_535, help="0 takes any that is free.")
    ] = 8765,
    surface: Annotated[
        Literal["search", "full"],
        typer.Option(help="Show a handful of tools that find and call the others, or all."),
    ] = "search",
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where keys, registered tools and usage are kept (PEGBOARD_STORE, or your own).",
        ),
    ] = None,
    audit: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write down who did what, besides.")
    ] = None,
    allow_anonymous: Annotated[
        bool,
        typer.Option(
            "--allow-anonymous",
            help="Serve other machines although nobody has to say who they are.",
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name under which this server is reached; may be given several times.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Pages that may talk to this server, such as https://app.example.com; "
            "may be given several times.",
        ),
    ] = None,
    drain: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="How long calls under way have when the process is to end.",
        ),
    ] = 30.0,
    notice: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="How long requests are still taken after /readyz says no.",
        ),
    ] = 0.0,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Log more than warnings, reloads and the end.")
    ] = False,
) -> None:
    """Serve all tools at one MCP endpoint, until Ctrl-C.

    Clients that speak HTTP are given the address it prints; for those that start programs,
    `pegboard connect CLIENT` writes `pegboard serve --stdio` into their file.
    """
    if sys.platform == "win32":
        complain(NOT_ON_WINDOWS)
        raise typer.Exit(FAILED)
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
        allow_host=tuple(allow_host or ()),
        allow_origin=tuple(allow_origin or ()),
        drain=drain,
        notice=notice,
        verbose=verbose,
    )
    raise typer.Exit(run(choices))
