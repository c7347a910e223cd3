"""`pegboard enable`: use a server again."""

import typer

from pegboard.cli.files.user_file import ConfigOption, ServerName, switch

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("enable")(enable)


def enable(name: ServerName, *, config: ConfigOption = None) -> None:
    """Use a server again."""
    switch(name, config, on=True)
