"""`pegboard find`: find servers in an MCP registry."""

from shlex import quote
from typing import Annotated, Any

import anyio
import msgspec
import typer

from pegboard.cli.directory.opened import (
    OfflineOption,
    RegistryOption,
    open_directory,
    say_if_cached,
    settings_for,
)
from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.files.user_file import ConfigOption, JsonOption
from pegboard.cli.terminal.durations import as_iso
from pegboard.cli.terminal.output import show_table, warn, write_json
from pegboard.directory import DirectoryEntry, FoundServers
from pegboard.model.tool_names import name_matcher

__all__ = ["add_to", "entry_as_json"]

_MOST = 500


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("find")(find)


def find(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="A part of the name or description; all without it."),
    ] = None,
    *,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=_MOST, help="Maximum number of servers.")
    ] = 20,
    registry: RegistryOption = None,
    offline: OfflineOption = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Find servers in an MCP registry. `pegboard add NAME` adds one of them.

    pegboard find postgres
    """
    settings = settings_for(config)
    words = " ".join(text or ())

    async def search() -> FoundServers:
        async with open_directory(settings, registry, offline=offline) as directory:
            return await directory.search(words, limit=limit)

    found = anyio.run(search)
    is_denied = name_matcher("registry.deny", settings.deny)
    denied = [it for it in found.entries if is_denied(it.name)]
    entries = tuple(it for it in found.entries if it not in denied)
    found = msgspec.structs.replace(found, entries=entries)
    say_if_cached(found.cached_at, found.problem)
    if json:
        write_json([entry_as_json(it, found.cached_at) for it in found.entries])
    elif found.entries:
        show_table(
            ("NAME", "VERSION", "KIND", "DESCRIPTION"),
            [_row(it) for it in found.entries],
            whole=("VERSION",),
        )
        options = {"--registry": registry, "--config": config}
        _advise(found, "".join(f" {it} {quote(to)}" for it, to in options.items() if to))
    if denied:
        warn(f"Left out, because `registry.deny` of the configuration forbids them: {len(denied)}.")
    if found.unreadable:
        warn(f"Entries of the registry that cannot be read: {found.unreadable}.")
    if not found.entries:
        about = f" with {words!r}" if words else ""
        warn(f"No server{about} was found.")
        raise typer.Exit(NOT_FOUND)


def entry_as_json(entry: DirectoryEntry, cached_at: float | None) -> dict[str, Any]:
    """Return a server as ``--json`` prints it: an array of objects, as the registry orders them.

    Fields: ``name``; ``version`` (the latest); ``title``; ``description``; ``kinds`` (``npm``,
    ``pypi``, ``oci``, ``nuget``, ``mcpb``, ``remote``, …); ``repository``; ``website``; ``licence``
    (empty where the entry does not tell); ``status`` (``active`` or ``deprecated``);
    ``published_at``; ``cached_at`` (null unless it comes from the cache).
    """
    fields = ("name", "version", "title", "description", "repository", "website", "licence")
    return {
        **{it: getattr(entry, it) for it in fields},
        "kinds": list(entry.kinds),
        "status": entry.status,
        "published_at": entry.published_at,
        "cached_at": None if cached_at is None else as_iso(cached_at),
    }


def _row(entry: DirectoryEntry) -> tuple[str, ...]:
    told = entry.description or entry.title
    told = f"({entry.status}) {told}" if entry.status != "active" else told
    return entry.name, entry.version, ", ".join(entry.kinds), told


def _advise(found: FoundServers, options: str) -> None:
    """Say how to go on, with the options that lead to the same registry and configuration."""
    if found.is_cut:
        warn("There are more; `--limit` shows more of them, and more words narrow the search.")
    warn(
        f"`pegboard add {found.entries[0].name}{options}` shows what would run, and asks before it "
        "is added."
    )
