"""Add a server from an MCP registry: look it up, show it, ask, and write its entry."""

import re
from collections.abc import Iterable, Mapping, Sequence
from shutil import which
from typing import Any

import anyio
import msgspec

from pegboard.cli.directory.entry_lines import describe_entry, describe_values
from pegboard.cli.directory.opened import NEWEST, open_directory, say_if_cached
from pegboard.cli.directory.values import ask_for_values, keep_values, texts_in
from pegboard.cli.files.user_file import (
    agree,
    kept_references,
    say_that_it_counts,
    say_what_is_left,
)
from pegboard.cli.terminal.output import say, warn
from pegboard.config.approval import ServerApproval
from pegboard.config.files.entry_validation import EntryContext, RawEntry, interpret
from pegboard.config.files.registry_settings import RegistrySettings
from pegboard.config.files.servers_file import ServersFile
from pegboard.config.secrets.kept_secrets import Keep, KeptSecret, KeptTogether
from pegboard.config.secrets.move_secrets import move_secrets
from pegboard.config.secrets.variables import Variables
from pegboard.config.servers import ServerConfig
from pegboard.directory import OFFICIAL_REGISTRY, DirectoryEntry, LookedUp
from pegboard.directory.input_values import AskedValue, GivenValue, GivenValues, written
from pegboard.directory.package_choice import Offer, asked_values, chosen_offer, entry_for
from pegboard.directory.registry_client import checked_url
from pegboard.errors import ConfigError, ServerNotAllowedError, UnsupportedPackageError
from pegboard.model.tool_names import name_matcher

__all__ = [
    "RUNNERS",
    "Wanted",
    "add_from_registry",
    "check_allowed",
    "checked_registry",
    "entry_with_origin",
    "look_up",
    "read_as",
    "runners_here",
    "say_where_values_are",
]

RUNNERS = {"npm": "npx", "pypi": "uvx", "oci": "docker", "nuget": "dnx"}
"""The program that runs each kind of package."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be added, and how."""

    name: str
    """The name of the server in the registry."""
    version: str = NEWEST
    package: str | None = None
    """The kind of package; ``None`` takes the best one."""
    called: str | None = None
    """Its name in the configuration; ``None`` takes the last part of its name."""
    values: tuple[str, ...] = ()
    """NAME=VALUE, or NAME."""
    fields: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """Further fields of its entry."""
    registry: str | None = None
    offline: bool = False
    yes: bool = False
    keep_secrets: bool = False


def add_from_registry(wanted: Wanted, settings: RegistrySettings, file: ServersFile) -> None:
    """Show the entry of a registry, ask for its values and whether to add it, and add it.

    Nothing of it is run.

    Raises:
        DirectoryError: when the registry, or the entry, cannot be used.
        ServerNotAllowedError: when the lists of the configuration forbid it.
        ConfigError: when the configuration cannot be written.
    """
    registry = checked_registry(wanted.registry, settings)
    found = look_up(settings, registry, wanted.name, wanted.version, offline=wanted.offline)
    say_if_cached(found.cached_at, found.problem)
    offer = chosen_offer(found.entry, wanted.package, runners=runners_here())
    asked = asked_values(offer)
    for line in describe_entry(found.entry, offer, registry=registry):
        warn(line)
    given = ask_for_values(asked, texts_in(wanted.values, asked))
    name = wanted.called or _name_of(found.entry)
    # Secrets are not shown: each looks like the reference that will stand there.
    hidden, _ = keep_values(name, asked, given, lambda _, __: KeptSecret("file", "***"))
    shown = entry_for(offer, hidden)
    for line in describe_values(shown, asked, list(given)):
        warn(line)
    entry = {**entry_with_origin(found.entry, offer, hidden, registry), **wanted.fields}
    check_allowed(read_as(name, entry, file), settings)
    if name in file.entries:
        warn(f"{file.path} already has a server {name!r}; it would be replaced.")
    agree(f"Add it to {file.path} as {name!r}?", yes=wanted.yes)
    _write(name, (found.entry, offer, registry), (asked, given), wanted=wanted, file=file)


def checked_registry(url: str | None, settings: RegistrySettings) -> str:
    """Return the URL of the registry that servers are added from.

    Raises:
        ConfigError: when it cannot be used.
        ServerNotAllowedError: when the configuration does not allow it.
    """
    found = checked_url(url or settings.url or OFFICIAL_REGISTRY, allow_http=settings.allow_http)
    if settings.registries:
        matches = name_matcher("registry.registries", settings.registries)
        if not matches(found) and not matches(f"{found}/"):
            raise ServerNotAllowedError(
                f"The configuration does not allow servers from {found}: it is not in "
                "`registry.registries`.",
                registry=found,
            )
    return found


def look_up(
    settings: RegistrySettings, url: str, name: str, version: str, *, offline: bool = False
) -> LookedUp:
    """Return a version of a server; one that was deleted is refused.

    Raises:
        DirectoryError: when the registry cannot be asked, or does not have it.
    """

    async def ask() -> LookedUp:
        async with open_directory(settings, url, offline=offline) as directory:
            return await directory.look_up(name, version)

    found = anyio.run(ask)
    if found.entry.status == "deleted":
        told = f" {found.entry.status_message}" if found.entry.status_message else ""
        raise UnsupportedPackageError(
            f"The publisher or the registry has deleted {name} {found.entry.version}.{told}",
            registry=url,
        )
    return found


def entry_with_origin(
    entry: DirectoryEntry, offer: Offer, given: GivenValues, registry: str
) -> dict[str, Any]:
    """Return the entry of the configuration, with where it came from."""
    made = entry_for(offer, given)
    origin: dict[str, Any] = {
        "url": registry,
        "name": entry.name,
        "version": entry.version,
        "package": offer.kind,
    }
    # Variables and headers stand in the entry by their names.
    kept = [
        it.name
        for it in asked_values(offer)
        if it.name not in {**made.get("env", {}), **made.get("headers", {})}
    ]
    inputs = {name: [written([it]) for it in given[name]] for name in kept if given.get(name)}
    return {**made, "registry": {**origin, **({"inputs": inputs} if inputs else {})}}


def check_allowed(config: ServerConfig, settings: RegistrySettings) -> None:
    """Refuse a server that the lists of the configuration forbid.

    Raises:
        ServerNotAllowedError: its message says which list.
    """
    objection = ServerApproval(allow=settings.allow, deny=settings.deny).objection(config)
    if objection:
        words = f"The configuration does not allow this server: {objection}."
        raise ServerNotAllowedError(config.redact(words))


def read_as(name: str, entry: Mapping[str, Any], file: ServersFile) -> ServerConfig:
    """Return how an entry would be read from a file, with its variables as they are written.

    Raises:
        ConfigError: when it could not be read.
    """
    variables = Variables(environ={}, undefined="keep", reads_secrets=False)
    reading = interpret(RawEntry(name, entry), EntryContext(variables, file.path.parent))
    for problem in reading.problems:
        if problem.severity == "error":
            raise ConfigError(problem.message)
    assert reading.config is not None
    return reading.config


def runners_here() -> list[str]:
    """Return the kinds of packages that can be run on this machine, and ``remote``."""
    return ["remote", *(kind for kind, program in RUNNERS.items() if which(program))]


def say_where_values_are(server: str, kept: Iterable[tuple[str, KeptSecret]]) -> None:
    """Say where secret values were put."""
    for name, place in kept:
        where = "the keyring" if place.where == "keyring" else "a file that only you can read"
        warn(f"The secret {name} of {server!r} is in {where}: {place.reference}")


def _write(
    name: str,
    source: tuple[DirectoryEntry, Offer, str],
    values: tuple[Sequence[AskedValue], Mapping[str, Sequence[GivenValue]]],
    *,
    wanted: Wanted,
    file: ServersFile,
) -> None:
    found, offer, registry = source
    is_new, before = file.is_new, kept_references(file)
    with KeptTogether(file.path) as keep:
        keeper: Keep | None = None if wanted.keep_secrets else keep
        given, kept = keep_values(name, *values, keeper)
        entry = {**entry_with_origin(found, offer, given, registry), **wanted.fields}
        if keeper is not None:
            # The entry may not call everything a secret that is one.
            entry, more, _ = move_secrets(name, entry, keep)
            kept |= more
        file.put(name, entry)
        file.save()
    say(f"Added {name!r} to {file.path}{' (a new file)' if is_new else ''}.")
    say_where_values_are(name, kept.items())
    runner = entry.get("command", "")
    if runner and which(runner) is None:
        warn(f"There is no program {runner!r} on this machine yet; `pegboard doctor` checks it.")
    say_what_is_left(before, file)
    say_that_it_counts(file)
    warn(f"`pegboard doctor {name}` starts it once; `pegboard remove {name}` undoes this.")


def _name_of(entry: DirectoryEntry) -> str:
    """Return a short name for the configuration: the last part of the name in the registry."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", entry.name.rpartition("/")[2]).strip("-") or "server"
