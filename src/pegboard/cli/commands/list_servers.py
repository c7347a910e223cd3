"""`pegboard list`: list the servers of the configuration."""

import os
from collections.abc import Sequence
from typing import Any

import msgspec
import typer

from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.files.user_file import ConfigOption, JsonOption, open_file
from pegboard.cli.terminal.output import show_table, warn, write_json
from pegboard.cli.terminal.plain_text import placed
from pegboard.config.files.entry_validation import Interpretation
from pegboard.config.problems import Problem
from pegboard.config.redaction import environment_read_once
from pegboard.errors.servers import without_name

__all__ = ["add_to", "server_as_json"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("list")(list_servers)


def list_servers(*, config: ConfigOption = None, json: JsonOption = False) -> None:
    """List the servers of your configuration, without starting any."""
    file = open_file(config)
    written = file.readings()
    # Only where a variable is, its value can make a difference.
    varying = {name for name, entry in file.entries.items() if _has_variable(entry.value)}
    expanded = file.readings(os.environ, of=varying) if varying else {}
    with environment_read_once():
        rows = [
            server_as_json(
                name, reading, _unset(reading, expanded[name]) if name in varying else ()
            )
            for name, reading in written.items()
        ]
    if json:
        write_json(rows)
    elif rows:
        show_table(
            ("SERVER", "STATE", "TYPE", "WHERE"),
            [(it["name"], it["state"], it["type"] or "", it["target"] or "") for it in rows],
            whole=("STATE", "TYPE"),
            commands=["WHERE"],
        )
    for problem in file.problems:
        warn(placed(problem, file.path))
    for row in rows:
        if row["problem"] is not None and not json:
            warn(f"{row['name']}: {without_name(row['name'], row['problem'])}")
    if not rows:
        where = f"There is no file {file.path}" if file.is_new else f"{file.path} has no servers"
        warn(
            f"{where} yet: `pegboard import` imports those of your clients, and `pegboard add` "
            "adds one."
        )
        raise typer.Exit(NOT_FOUND)


def server_as_json(
    name: str, reading: Interpretation, unset: Sequence[Problem] = ()
) -> dict[str, Any]:
    """Return a server as ``--json`` prints it: an array of objects, in the order of the file.

    ``name``; ``state`` (``enabled``, ``disabled``, or ``unusable``: its entry has an error);
    ``type`` (``stdio``, ``streamable_http``, ``sse``, ``websocket``; null if unusable); ``target``
    (command line or address without secrets, variables as they are written; null if unusable);
    ``problem`` (the first error of its entry, its variables that are not set, or its first warning;
    null if there is none).
    """
    config = reading.config
    worst = [it.message for it in sorted(reading.problems, key=lambda it: it.severity)]
    missing = " ".join(it.message for it in unset) if config is not None else ""
    state = "enabled" if config is not None and config.enabled else "disabled"
    return {
        "name": name,
        "state": "unusable" if config is None else state,
        "type": None if config is None else config.transport,
        "target": None if config is None else config.target,
        "problem": missing or next(iter(worst), None),
    }


def _has_variable(entry: object) -> bool:
    return b"$" in msgspec.json.encode(entry)


def _unset(written: Interpretation, expanded: Interpretation) -> list[Problem]:
    """Return what is wrong only since variables are looked up."""
    return [it for it in expanded.problems if it.kind == "variable" and it not in written.problems]
