"""`pegboard remove`: remove a server from the configuration."""

import typer

from pegboard.cli.files.user_file import (
    ConfigOption,
    ServerNames,
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


def remove(names: ServerNames, *, config: ConfigOption = None) -> None:
    """Remove servers from your configuration: all of those that are named, or none."""
    file = open_file(config, must_exist=True)
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in file.entries:
            raise ServerNotFoundError(name, known=list(file.entries))
    before = kept_references(file)
    for name in wanted:
        file.remove(name)
    file.save()
    for name in wanted:
        say(f"Removed {name!r} from {file.path}.")
    say_what_is_left(before, file)
    say_that_it_counts(file)
