"""`pegboard remove`: remove a server from the configuration."""

import typer

from pegboard.cli.files.user_file import (
    ConfigOption,
    ServerName,
    kept_references,
    open_file,
    say_that_it_counts,
    say_what_is_left,
)
from pegboard.cli.terminal.output import say
from pegboard.errors import ServerNotFoundError

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("remove")(remove)


def remove(name: ServerName, *, config: ConfigOption = None) -> None:
    """Remove a server from your configuration."""
    file = open_file(config, must_exist=True)
    if name not in file.entries:
        raise ServerNotFoundError(name, known=list(file.entries))
    before = kept_references(file)
    file.remove(name)
    file.save()
    say(f"Removed {name!r} from {file.path}.")
    say_what_is_left(before, file)
    say_that_it_counts(file)
