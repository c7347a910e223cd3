"""`pegboard enable`: enable a disabled server."""

import typer

from pegboard.cli.files.user_file import ConfigOption, ServerName, switch

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("enable")(enable)


def enable(name: ServerName, *, config: ConfigOption = None) -> None:
    """Enable a server that is disabled."""
    switch(name, config, on=True)
