"""A server switched on or off in the user's own file."""

from pegboard.cli.output import say, warn
from pegboard.cli.own_file import open_file, say_that_it_counts

__all__ = ["switch"]


def switch(name: str, config: str | None, *, on: bool) -> None:
    """Switch a server, and say so.

    Raises:
        ConfigError: when there is no such file.
        ServerNotFoundError: when there is no such server.
    """
    file = open_file(config, must_exist=True)
    changed = file.switch(name, on=on)
    state = "enabled" if on else "disabled"
    if not changed:
        warn(f"Server {name!r} is {state} already.")
        return
    file.save()
    say(f"Server {name!r} is {state} now.")
    say_that_it_counts(file)
