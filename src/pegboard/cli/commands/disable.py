"""`pegboard disable`: keep a server in the configuration, but do not use it."""

import typer

from pegboard.cli.files.user_file import ConfigOption, ServerName, switch

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("disable")(disable)


def disable(name: ServerName, *, config: ConfigOption = None) -> None:
    """Keep a server in your configuration, but do not use it."""
    switch(name, config, on=False)
