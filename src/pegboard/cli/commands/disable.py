"""`pegboard disable`: keep a server in the configuration, but do not use it."""

import typer

from pegboard.cli.files.user_file import ConfigOption, ServerNames, switch

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("disable")(disable)


def disable(names: ServerNames, *, config: ConfigOption = None) -> None:
    """Keep servers in your configuration, but do not use them."""
    switch(names, config, on=False)
