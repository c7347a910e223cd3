"""`pegboard enable`: use a server again."""

import typer

from pegboard.cli.own_file import ConfigOption, ServerName
from pegboard.cli.switch import switch

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("enable")(enable)


def enable(name: ServerName, *, config: ConfigOption = None) -> None:
    """Use a server again."""
    switch(name, config, on=True)
