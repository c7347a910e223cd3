"""`pegboard outdated`: list the servers with a newer version in their MCP registry."""

from typing import Any

import typer

from pegboard.cli.directory.opened import OfflineOption, settings_for
from pegboard.cli.exit_codes import FAILED
from pegboard.cli.files.user_file import ConfigOption, JsonOption, open_file
from pegboard.cli.terminal.output import show_table, warn, write_json
from pegboard.cli.terminal.plain_text import counted

__all__ = ["add_to", "outdated_as_json"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("outdated")(outdated)


def outdated(
    *, offline: OfflineOption = False, config: ConfigOption = None, json: JsonOption = False
) -> None:
    """List the servers that were added from an MCP registry and have a newer version there."""
    # It brings an HTTP client, which `pegboard --help` does without.
    from pegboard.cli.directory.newer_versions import newer_versions  # noqa: PLC0415

    file = open_file(config, must_exist=True)
    checked = newer_versions(file, settings_for(config), offline=offline)
    rows = [it for it in checked if it.is_outdated]
    if json:
        write_json(
            [
                outdated_as_json(
                    server=it.server,
                    name=it.origin.name,
                    version=it.origin.version,
                    latest=it.latest,
                    problem=it.problem,
                    is_outdated=it.is_outdated,
                )
                for it in checked
            ]
        )
    elif rows:
        cells = [(it.server, it.origin.version, it.latest or "", it.origin.name) for it in rows]
        show_table(("SERVER", "VERSION", "LATEST", "NAME"), cells, whole=("VERSION", "LATEST"))
        warn(f"`pegboard upgrade {rows[0].server}` shows what would change, and asks.")
    elif not checked:
        warn("No server of this file was added from an MCP registry.")
    elif all(not it.problem for it in checked):
        warn(f"{counted(len(checked), 'server')} from MCP registries: all have the latest version.")
    for it in checked:
        if it.problem and not json:
            warn(f"{it.server}: {it.problem}")
    if any(it.latest is None for it in checked):
        raise typer.Exit(FAILED)


def outdated_as_json(
    *,
    server: str,
    name: str,
    version: str,
    latest: str | None,
    problem: str,
    is_outdated: bool,
) -> dict[str, Any]:
    """Return a server as ``--json`` prints it: an array of objects, in the order of the file.

    Only servers that were added from a registry are in it. Fields: ``server``; ``name`` (in the
    registry); ``version`` (of the file); ``latest`` (null if it cannot be found out);
    ``outdated``; ``problem`` (why it is not known, or that it comes from the cache; null if
    neither).
    """
    return {
        "server": server,
        "name": name,
        "version": version,
        "latest": latest,
        "outdated": is_outdated,
        "problem": problem or None,
    }
