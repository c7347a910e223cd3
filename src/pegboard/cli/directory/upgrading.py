"""Upgrade a server of the configuration: compare, ask, write, and undo."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

import anyio
import anyio.to_thread
import msgspec

from pegboard.cli.directory.adding import (
    check_allowed,
    checked_registry,
    entry_with_origin,
    look_up,
    read_as,
    runners_here,
    say_where_values_are,
)
from pegboard.cli.directory.entry_lines import command_line
from pegboard.cli.directory.opened import NEWEST, say_if_cached, settings_for
from pegboard.cli.directory.values import ask_for_values, keep_values, texts_in
from pegboard.cli.entry.command_lock import in_turn
from pegboard.cli.files.user_file import (
    agree,
    kept_references,
    open_file,
    say_that_it_counts,
    say_what_is_left,
)
from pegboard.cli.terminal.output import ask, say, warn
from pegboard.cli.terminal.plain_text import counted, one_line
from pegboard.config.files.mcp_json import load_entry
from pegboard.config.files.registry_settings import RegistrySettings
from pegboard.config.files.servers_file import ServersFile
from pegboard.config.secrets.kept_secrets import KeptTogether
from pegboard.directory import DirectoryEntry
from pegboard.directory.definition_changes import tool_changes
from pegboard.directory.input_values import AskedValue, GivenValue
from pegboard.directory.package_choice import Offer, asked_values, chosen_offer
from pegboard.directory.upgrades import UpgradeRecords, origin_of, upgraded, values_of
from pegboard.directory.versions import is_newer
from pegboard.errors import ConfigError, DirectoryError, PegboardError, ServerNotFoundError
from pegboard.upstream.standalone import StandaloneClient

__all__ = ["Upgrade", "undo_upgrade", "upgrade_server"]

_SECONDS_TO_START = 120.0
_MOST_SHOWN = 100
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be upgraded, and how."""

    server: str
    version: str = NEWEST
    values: tuple[str, ...] = ()
    starts: bool = True
    """Whether both versions are started, to compare their tools."""
    yes: bool = False
    keep_secrets: bool = False
    config: str | None = None


class _Planned(msgspec.Struct, kw_only=True):
    """The upgrade of one entry, before it is written."""

    current: Mapping[str, Any]
    entry: DirectoryEntry
    offer: Offer
    before: Offer | None
    """What the entry was made of, if the registry still knows it."""
    asked: Sequence[AskedValue]
    given: Mapping[str, Sequence[GivenValue]]
    registry: str

    def made(self, given: Mapping[str, Sequence[GivenValue]]) -> dict[str, Any]:
        """Return the entry of the configuration with these values."""
        made = entry_with_origin(self.entry, self.offer, given, self.registry)
        return upgraded(self.current, made, old=self.before, new=self.offer)


def upgrade_server(wanted: Upgrade) -> None:
    """Compare two versions of a server, ask, and change its entry.

    Raises:
        ServerNotFoundError: when there is no such server.
        ConfigError: when it was not added from a registry, or the file cannot be written.
        DirectoryError: when the registry, or the new version, cannot be used.
    """
    settings, file = settings_for(wanted.config), open_file(wanted.config, must_exist=True)
    current = _entry_in(file, wanted.server)
    planned = _planned(wanted, current, settings)
    if planned is None:
        return
    entry = planned.made(planned.given)
    check_allowed(read_as(wanted.server, entry, file), settings)
    _show(planned, entry)
    if wanted.starts and _may_start(entry, yes=wanted.yes):
        _compare(wanted.server, current, entry, file)
    version = planned.entry.version
    agree(f"Change {wanted.server!r} to version {version}?", yes=wanted.yes)
    _write(wanted, planned)


def undo_upgrade(server: str, config: str | None, *, yes: bool) -> None:
    """Put the entry back that a server had before its last upgrade.

    Raises:
        ConfigError: when there was none, or the entry was changed since.
    """
    records, path = UpgradeRecords(), open_file(config, must_exist=True).path
    record = records.last(path, server)
    if record is None:
        raise ConfigError(f"No upgrade of {server!r} is known that could be undone.")
    was = origin_of(record.before)
    warn(f"  Runs:         {one_line(command_line(record.before))}")
    agree(f"Change {server!r} back to version {was.version if was else 'before'}?", yes=yes)
    with in_turn(_words(config)):
        file = open_file(config, must_exist=True)
        if _entry_in(file, server) != record.after:
            raise ConfigError(
                f"The entry of {server!r} was changed since its upgrade, so the upgrade is not "
                "undone. Change the version in the entry by hand."
            )
        kept = kept_references(file)
        file.put(server, record.before)
        file.save()
        records.forget(path, server)
    say(f"Undid the upgrade of {server!r}.")
    say_what_is_left(kept, file)
    say_that_it_counts(file)


def _planned(
    wanted: Upgrade, current: Mapping[str, Any], settings: RegistrySettings
) -> _Planned | None:
    origin = origin_of(current)
    if origin is None:
        raise ConfigError(
            f"Server {wanted.server!r} was not added from an MCP registry, so its versions are "
            "not known. `pegboard find` finds servers in one."
        )
    registry = checked_registry(origin.url, settings)
    found = look_up(settings, registry, origin.name, wanted.version)
    say_if_cached(found.cached_at, found.problem)
    entry = found.entry
    is_same = entry.version == origin.version
    if is_same or (wanted.version == NEWEST and not is_newer(entry.version, origin.version)):
        say(f"{wanted.server!r} has version {origin.version}; the registry has {entry.version}.")
        return None
    offer = chosen_offer(entry, origin.package, runners=runners_here())
    before: Offer | None = None
    try:
        old = look_up(settings, registry, origin.name, origin.version).entry
        before = chosen_offer(old, origin.package, runners=runners_here())
    except DirectoryError as error:
        warn(f"The present version cannot be looked up: {error}")
    asked = asked_values(offer)
    known = {it.name for it in asked}
    held = {name: it for name, it in values_of(current, origin).items() if name in known}
    given = ask_for_values(asked, {**held, **texts_in(wanted.values, asked)})
    return _Planned(
        current=current,
        entry=entry,
        offer=offer,
        before=before,
        asked=asked,
        given=given,
        registry=registry,
    )


def _show(planned: _Planned, entry: Mapping[str, Any]) -> None:
    hidden, _ = keep_values("", planned.asked, planned.given, _not_shown)
    shown = planned.made(hidden)
    origin = origin_of(planned.current)
    warn(f"{planned.entry.name}: {origin.version if origin else '?'} -> {planned.entry.version}")
    if planned.entry.status != "active":
        warn(f"  Status:       {planned.entry.status} {planned.entry.status_message}")
    warn(f"  Runs now:     {one_line(command_line(planned.current))}")
    warn(f"  Would run:    {one_line(command_line(shown))}")
    for field, label in (("env", "Environment"), ("headers", "Headers")):
        before, after = planned.current.get(field, {}), entry.get(field, {})
        new = [it for it in after if it not in before]
        if new:
            warn(f"  {label + ':':<14}{one_line(', '.join(new))} (new)")


def _not_shown(_: str, __: str) -> Any:
    from pegboard.config.secrets.kept_secrets import KeptSecret  # noqa: PLC0415 - placeholder

    return KeptSecret("file", "***")


def _may_start(entry: Mapping[str, Any], *, yes: bool) -> bool:
    if yes:
        return True
    what = "reached" if "url" in entry else "started"
    return ask(f"May both versions be {what} now, to compare their tools?", default=False)


def _compare(
    server: str, current: Mapping[str, Any], entry: Mapping[str, Any], file: ServersFile
) -> None:
    """Start both versions, and show how their tools differ.

    Raises:
        PegboardError: when the new version cannot be started.
    """
    # This command reports each failure itself.
    logging.getLogger("pegboard").addHandler(logging.NullHandler())
    after = anyio.run(_tools_of, server, entry, file)
    try:
        before = anyio.run(_tools_of, server, current, file)
    except PegboardError as error:
        warn(f"The present version cannot be started, so only the new tools are known: {error}")
        before = []
    changes = tool_changes(before, after)
    if not changes:
        warn(f"  Tools:        {counted(len(after), 'tool')}, all defined as before")
        return
    warn(f"  Tools:        {len(before)} -> {len(after)}")
    for it in changes[:_MOST_SHOWN]:
        parts = f": {'; '.join(it.parts)}" if it.parts else ""
        warn(f"    {_SIGNS[it.kind]} {one_line(it.name + parts)}")
    if len(changes) > _MOST_SHOWN:
        warn(f"    and {len(changes) - _MOST_SHOWN} more")


async def _tools_of(
    server: str, entry: Mapping[str, Any], file: ServersFile
) -> list[dict[str, Any]]:
    config = await anyio.to_thread.run_sync(lambda: load_entry(server, entry, beside=file.path))
    # It may have to be downloaded first.
    patience = max(config.timeouts.connect, _SECONDS_TO_START)
    timeouts = msgspec.structs.replace(config.timeouts, connect=patience)
    client = StandaloneClient(msgspec.structs.replace(config, timeouts=timeouts))
    try:
        await client.connect()
        return await client.list_tools()
    finally:
        await client.close()


def _write(wanted: Upgrade, planned: _Planned) -> None:
    with in_turn(_words(wanted.config)):
        file = open_file(wanted.config, must_exist=True)
        if _entry_in(file, wanted.server) != planned.current:
            raise ConfigError(
                f"The entry of {wanted.server!r} was changed meanwhile. Try again.",
                path=str(file.path),
            )
        references = kept_references(file)
        with KeptTogether(file.path) as keep:
            keeper = None if wanted.keep_secrets else keep
            given, kept = keep_values(wanted.server, planned.asked, planned.given, keeper)
            entry = planned.made(given)
            UpgradeRecords().keep(file.path, wanted.server, before=planned.current, after=entry)
            file.put(wanted.server, entry)
            file.save()
    say(f"Upgraded {wanted.server!r} to version {planned.entry.version}.")
    say_where_values_are(wanted.server, kept.items())
    say_what_is_left(references, file)
    say_that_it_counts(file)
    warn(f"`pegboard upgrade {wanted.server} --undo` undoes this.")


def _entry_in(file: ServersFile, server: str) -> Mapping[str, Any]:
    entries = file.entries
    if server not in entries:
        raise ServerNotFoundError(server, known=list(entries))
    value = entries[server].value
    if not isinstance(value, Mapping):
        raise ConfigError(f"Server {server!r} must be an object.", path=str(file.path))
    return cast("Mapping[str, Any]", value)


def _words(config: str | None) -> list[str]:
    return ["upgrade", *(() if config is None else ("--config", config))]
