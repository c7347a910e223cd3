"""`pegboard enable`: enable a disabled server."""

import typer

from pegboard.cli.files.user_file import ConfigOption, ServerNames, switch

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("enable")(enable)


def enable(names: ServerNames, *, config: ConfigOption = None) -> None:
    """Enable servers that are disabled."""
    switch(names, config, on=True)
