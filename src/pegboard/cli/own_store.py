"""The store that a command is about, and what to say if the gateway that runs has another."""

from pegboard.cli.output import warn
from pegboard.server.process.instance_discovery import announcements, place_of_store
from pegboard.storage import default_url
from pegboard.storage.urls import without_password

__all__ = ["store_meant"]


def store_meant(named: str | None) -> str:
    """Return the URL of the store that is named, or else one's own.

    Of one's own it is said if no gateway keeps anything there, though one runs.
    """
    if named is not None:
        return named
    url = default_url()
    running = list(announcements())
    if running and all(it.store != place_of_store(url) for it in running):
        latest = running[0]
        has = "has no store, like any `serve --demo`"
        if latest.store is not None:
            has = f"has its store in {latest.store}"
        warn(
            f"The gateway at {latest.address} {has}; this command looks at {without_password(url)}."
        )
    return url
