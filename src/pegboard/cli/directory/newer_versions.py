"""Ask the registries of the servers of a file for their latest versions, several at once."""

from collections.abc import Iterable

import anyio
import msgspec

from pegboard.cli.directory.opened import NEWEST, open_directory
from pegboard.cli.terminal.durations import shown
from pegboard.config.files.entry import OriginEntry
from pegboard.config.files.registry_settings import RegistrySettings
from pegboard.config.files.servers_file import ServersFile
from pegboard.directory import ServerDirectory
from pegboard.directory.upgrades import origin_of
from pegboard.directory.versions import is_newer
from pegboard.errors import PegboardError

__all__ = ["CheckedVersion", "newer_versions"]

_AT_ONCE = 8
_MOST = 1000


class CheckedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A server that was added from a registry, and the latest version there."""

    server: str
    origin: OriginEntry
    latest: str | None = None
    problem: str = ""

    @property
    def is_outdated(self) -> bool:
        """Whether there is a newer version."""
        return self.latest is not None and is_newer(self.latest, self.origin.version)


def newer_versions(
    file: ServersFile, settings: RegistrySettings, *, offline: bool = False
) -> list[CheckedVersion]:
    """Return the servers of a file that were added from a registry, with their latest versions."""
    found = [
        CheckedVersion(server=name, origin=origin)
        for name, entry in file.entries.items()
        if (origin := origin_of(entry.value)) is not None
    ][:_MOST]
    return anyio.run(_checked, found, settings, offline) if found else []


async def _checked(
    servers: list[CheckedVersion],
    settings: RegistrySettings,
    offline: bool,  # noqa: FBT001 - `anyio.run` passes it by position
) -> list[CheckedVersion]:
    results: dict[str, CheckedVersion] = {}
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def check(directory: ServerDirectory, it: CheckedVersion) -> None:
        async with limiter:
            try:
                found = await directory.look_up(it.origin.name, NEWEST)
            except PegboardError as error:
                results[it.server] = msgspec.structs.replace(it, problem=str(error))
                return
        told = ""
        if found.cached_at is not None:
            told = f"{found.problem} From the cache of {shown(found.cached_at, nothing='')} (UTC)."
        latest = found.entry.version
        results[it.server] = msgspec.structs.replace(it, latest=latest, problem=told)

    for url in dict.fromkeys(it.origin.url for it in servers):
        own = [it for it in servers if it.origin.url == url]
        try:
            async with (
                open_directory(settings, url, offline=offline) as directory,
                anyio.create_task_group() as tasks,
            ):
                for it in own:
                    tasks.start_soon(check, directory, it)
        except PegboardError as error:
            results |= _failed(own, error)
    return [results[it.server] for it in servers]


def _failed(servers: Iterable[CheckedVersion], error: PegboardError) -> dict[str, CheckedVersion]:
    return {it.server: msgspec.structs.replace(it, problem=str(error)) for it in servers}
