"""What an archive holds, read as those would read it whose it is, before anything is written."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from pegboard.cli.terminal.output import warn
from pegboard.errors import StorageError
from pegboard.server.process.instance_discovery import place_of_store, running_instances
from pegboard.storage import decode_tool, default_url
from pegboard.storage.export_import import Archive
from pegboard.storage.urls import without_password

__all__ = ["check_archive", "store_meant"]


def store_meant(named: str | None) -> str:
    """Return the URL of the store that is named, or else one's own.

    Of one's own it is said if no gateway keeps anything there, though one runs.
    """
    if named is not None:
        return named
    url = default_url()
    running = list(running_instances())
    if running and all(it.store != place_of_store(url) for it in running):
        latest = running[0]
        has = "has no store, like any `serve --demo`"
        if latest.store is not None:
            has = f"has its store in {latest.store}"
        warn(
            f"The gateway at {latest.address} {has}; this command looks at {without_password(url)}."
        )
    return url


_MOST_NAMED = 5


def check_archive(archive: Archive, *, name: str) -> None:
    """Refuse an archive with values that nobody could use; rooms that we do not know are any JSON.

    Raises:
        StorageError: when something is damaged, with its place.
    """
    damaged = list(_damaged(archive))
    if damaged:
        shown = ", ".join(damaged[:_MOST_NAMED])
        more = f" and {len(damaged) - _MOST_NAMED} more" if len(damaged) > _MOST_NAMED else ""
        raise StorageError(
            f"{name} is damaged, so nothing was written: {shown}{more} cannot be read. Export it "
            "again, or take that out of the file.",
            url=name,
        )


def _damaged(archive: Archive) -> Iterator[str]:
    rooms = _readers()
    for tenant in archive.tenants:
        for index, it in enumerate(tenant.tools):
            if not _is_sound(lambda _, raw: decode_tool(raw), "", bytes(it.tool)):
                yield f"tool {index + 1} of {tenant.tenant!r}"
        for room, values in tenant.values.items():
            read = rooms.get(room)
            for key, value in values.items():
                if read is not None and not _is_sound(read, key, value):
                    yield f"{room}/{key} of {tenant.tenant!r}"


def _is_sound(read: Callable[[str, Any], object], key: str, value: object) -> bool:
    try:
        read(key, value)
    except (ValueError, TypeError, RecursionError, StorageError):
        return False
    return True


def _readers() -> Mapping[str, Callable[[str, Any], object]]:
    """Return what reads a value of each room, and raises an error if it is damaged."""
    from pegboard.auth.api_keys import KEYS, stored_key  # noqa: PLC0415 - only to import archives
    from pegboard.model import CallRecord  # noqa: PLC0415 - the same
    from pegboard.observe import AuditRecord  # noqa: PLC0415 - the same
    from pegboard.observe.audit import AUDIT  # noqa: PLC0415 - the same
    from pegboard.observe.daily_usage import DAILY_USAGE, check_day  # noqa: PLC0415 - the same
    from pegboard.observe.history import CALLS  # noqa: PLC0415 - the same
    from pegboard.upstream.catalog.cache import SERVERS, CachedCatalog  # noqa: PLC0415 - the same

    return {
        KEYS: stored_key,
        AUDIT: lambda _, value: msgspec.convert(value, AuditRecord),
        CALLS: lambda _, value: msgspec.convert(value, CallRecord),
        DAILY_USAGE: check_day,
        SERVERS: lambda _, value: msgspec.convert(value, CachedCatalog),
    }
