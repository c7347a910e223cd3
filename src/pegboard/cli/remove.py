"""`pegboard remove`: take a server out of the configuration."""

import re
from collections.abc import Iterator, Mapping
from typing import cast

import typer

from pegboard.cli.output import say, warn
from pegboard.cli.own_file import ConfigOption, ServerName, open_file, say_that_it_counts
from pegboard.errors import ServerNotFoundError

__all__ = ["add_to"]

_KEPT = re.compile(r"\$\{(?:keyring|file):[^{}]*\}")


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("remove")(remove)


def remove(name: ServerName, *, config: ConfigOption = None) -> None:
    """Take a server out of your configuration."""
    file = open_file(config)
    entry = file.entries.get(name)
    if entry is None:
        raise ServerNotFoundError(name, known=list(file.entries))
    file.remove(name)
    file.save()
    say(f"Removed {name!r} from {file.path}.")
    for reference in dict.fromkeys(_references(entry.value)):
        warn(f"A secret of it is still kept: {reference}")
    say_that_it_counts()


def _references(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from _KEPT.findall(value)
    elif isinstance(value, Mapping):
        for it in cast("Mapping[str, object]", value).values():
            yield from _references(it)
    elif isinstance(value, list):
        for it in cast("list[object]", value):
            yield from _references(it)
