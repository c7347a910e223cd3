"""Entries that can be used, but hardly mean what they say."""

from collections.abc import Iterator
from typing import NamedTuple

from pegboard.config.files.assemble import MOST_SECONDS
from pegboard.config.files.entry import CommandEntry, OAuthEntry, ServerEntry
from pegboard.config.problems import FieldPath, shown_key
from pegboard.config.servers import ServerConfig, is_reserved_header

__all__ = ["Doubt", "doubts_about"]

# Below that, everybody means seconds.
_LEAST_DOUBTFUL = 1000
_ONLY_PROCESSES = ("args", "env", "env_file", "cwd")
_ONLY_ADDRESSES = ("headers", "bearer_token", "oauth")


class Doubt(NamedTuple):
    """What a person should look at, and in which field."""

    message: str
    path: FieldPath


def doubts_about(entry: ServerEntry, config: ServerConfig) -> Iterator[Doubt]:
    """Give what is ignored, missing or ambiguous in the entry of a server."""
    yield from _unused_fields(entry, config)
    yield from _reserved_headers(config)
    yield from _whole_command_line(entry, config)
    yield from _unit_of_timeout(entry, config)
    oauth = entry.oauth
    if isinstance(oauth, OAuthEntry) and oauth.flow == "client_credentials":
        missing = [it for it in ("client_id", "client_secret") if not getattr(oauth, it)]
        if missing:
            needs = " and ".join(f"`{it}`" for it in missing)
            yield Doubt(
                f"Server {config.name!r} logs in by `client_credentials`, so its `oauth` needs "
                f"{needs}.",
                ("oauth",),
            )


def _unused_fields(entry: ServerEntry, config: ServerConfig) -> Iterator[Doubt]:
    is_process = config.transport == "stdio"
    unused = _ONLY_ADDRESSES if is_process else _ONLY_PROCESSES
    what = "a program" if is_process else "reached by its address"
    for field in unused:
        if getattr(entry, field):
            yield Doubt(
                f"Server {config.name!r} is {what}, so its `{field}` is not used.", (field,)
            )


def _reserved_headers(config: ServerConfig) -> Iterator[Doubt]:
    for name in config.headers if config.transport != "stdio" else ():
        if is_reserved_header(name):
            yield Doubt(
                f"Header `{shown_key(name)}` of server {config.name!r} belongs to the protocol and "
                "is not sent; leave it out.",
                ("headers", name),
            )


def _whole_command_line(entry: ServerEntry, config: ServerConfig) -> Iterator[Doubt]:
    command = "" if isinstance(entry.command, CommandEntry) else entry.command or ""
    words = command.split()
    if config.transport != "stdio" or entry.args or len(words) < 2:
        return
    # Folders may have spaces in their names.
    is_a_path = "/" in words[0] or "\\" in words[0]
    if not is_a_path or any(word.startswith("-") for word in words[1:]):
        yield Doubt(
            f"The `command` of server {config.name!r} looks like a whole command line. Put the "
            "program alone into `command`, and the rest into `args`.",
            ("command",),
        )


def _unit_of_timeout(entry: ServerEntry, config: ServerConfig) -> Iterator[Doubt]:
    is_clear = entry.timeouts is not None and entry.timeouts.call is not None
    if is_clear or (entry.timeout or 0) < _LEAST_DOUBTFUL:
        return
    unit = "seconds" if (entry.timeout or 0) <= MOST_SECONDS else "milliseconds"
    yield Doubt(
        f"The `timeout` of server {config.name!r} is read as {unit}. Write "
        '`"timeouts": {"call": …}`, in seconds, to leave no doubt.',
        ("timeout",),
    )
