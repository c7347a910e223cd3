"""`pegboard console`: open the pages of the running gateway in a browser."""

import webbrowser
from typing import Annotated

import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.running_gateway import find_gateway
from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.terminal.output import complain, say, warn, write_json
from pegboard.errors import ConfigError

__all__ = ["add_to", "link_as_json"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("console")(console)


def console(
    *,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the link, and open no browser.")
    ] = False,
    config: option.Config = None,
    store: option.StoreUrl = None,
    json: option.Json = False,
) -> None:
    """Open the pages of the running gateway in a browser, by a link that works once."""
    gateway = find_gateway(config, store)
    if gateway is None:
        complain("No gateway runs with this configuration; `pegboard serve` starts one.")
        raise typer.Exit(NOT_FOUND)
    path = gateway.console_link()
    if path is None:
        words = "This gateway serves no pages: `gateway.console` is off in its configuration."
        raise ConfigError(words)
    link = f"{gateway.address}{path}"
    if json:
        write_json(link_as_json(link))
        return
    say(link)
    warn("The link works once, within five minutes.")
    if not no_browser and not webbrowser.open(link):
        warn("No browser could be started: open the link in yours.")


def link_as_json(link: str) -> dict[str, str]:
    """Return what ``--json`` prints: an object with ``link``, which works once."""
    return {"link": link}
