"""`pegboard logs`: show what servers wrote to stderr, and what the gateway did with them."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from pegboard.cli.entry.signals import hear_signals_as_usual
from pegboard.cli.files.user_file import open_file
from pegboard.cli.terminal.durations import since
from pegboard.cli.terminal.output import say, warn, write_json
from pegboard.cli.terminal.plain_text import counted
from pegboard.errors import ConfigError, ServerNotFoundError
from pegboard.observe.server_log import LogLine, default_log_folder
from pegboard.observe.server_log_reading import LogReader

__all__ = ["add_to", "log_as_json"]

_PAUSE = 0.25
"""Seconds between two looks at the files."""


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("logs")(logs)


def logs(
    server: Annotated[
        str | None,
        typer.Argument(metavar="SERVER", help="Server to show (default: all)."),
    ] = None,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new lines until you press Ctrl-C.")
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Show all lines since 10m, 2h or 3d ago, or since 2026-11-18T09:00+01:00.",
        ),
    ] = None,
    number: Annotated[
        int,
        typer.Option(
            "--lines", "-n", metavar="N", min=0, help="Show the last N lines, without `--since`."
        ),
    ] = 200,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON; with `--follow`, one object for each line.")
    ] = False,
) -> None:
    """Show what servers wrote to standard error, and what the gateway did with them.

    The gateway keeps the log on disk, so the command also works when it has stopped. Secrets are
    redacted. The log of a server that writes too much has gaps, which say how many lines they lack.
    The exit code is 3 if the server is neither configured nor in the log.
    """
    moment = None if start is None else since(start, option="--since")
    folder = default_log_folder()
    reader = LogReader(folder, server=server, since=moment)
    found = reader.read()
    if server is not None and not found and not follow:
        _check_name(server, folder)
    hidden = max(0, len(found) - number) if start is None else 0
    found = found[hidden:]
    if hidden:
        more = counted(hidden, "older line")
        warn(f"({more} not shown; `-n {hidden + number}` or `--since 1d` shows more)")
    if json and not follow:
        write_json(log_as_json(found))
        return
    if not found and not follow:
        whose = "" if server is None else f" of server {server!r}"
        when = "" if start is None else " since then"
        warn(f"The log{whose} has no lines{when}: {folder}")
        return
    _show(found, json=json)
    if follow:
        _follow(reader, json=json)


def _check_name(server: str, folder: Path) -> None:
    """Refuse a name that is neither configured nor in the log.

    Raises:
        ServerNotFoundError: when the name is unknown.
    """
    logged = {it.server: None for it in LogReader(folder).read() if it.server}
    try:
        known = [*dict.fromkeys([*open_file(None).entries, *logged])]
    except ConfigError:
        # The file cannot be read, so the name may be in it.
        return
    if server not in known:
        raise ServerNotFoundError(server, known=known)


def log_as_json(lines: Sequence[LogLine]) -> list[dict[str, Any]]:
    """Return lines of the log as ``--json`` prints them: an array, the oldest first.

    Each has ``at`` (ISO 8601, in UTC), ``server`` (empty for the gateway itself), ``event``
    (``stderr`` for a line that the server wrote; otherwise what happened to it), ``text``,
    ``tenant`` (empty for the first tenant) and ``pid`` (of the gateway).
    """
    return [{name: getattr(it, name) for name in LogLine.__struct_fields__} for it in lines]


def _follow(reader: LogReader, *, json: bool) -> None:
    hear_signals_as_usual()
    try:
        while True:
            time.sleep(_PAUSE)
            _show(reader.read(), json=json)
    except KeyboardInterrupt:
        # It is the usual way to end it, and no failure.
        return


def _show(lines: Sequence[LogLine], *, json: bool) -> None:
    if json:
        for it in log_as_json(lines):
            sys.stdout.write(f"{msgspec.json.encode(it).decode()}\n")
    else:
        width = max((len(_name(it)) for it in lines), default=0)
        for it in lines:
            moment = it.at.astimezone().isoformat(timespec="seconds")
            say(f"{moment}  {_name(it):<{min(width, 24)}}  {it.event:<8}  {it.text}".rstrip())
    sys.stdout.flush()


def _name(line: LogLine) -> str:
    return "/".join(it for it in (line.tenant, line.server) if it) or "gateway"
