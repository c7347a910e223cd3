"""Reloading: servers come and go with the configuration, the others work on."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from pegboard.config import locate_config
from pegboard.errors import PegboardError
from pegboard.hub import Hub

__all__ = ["FileFollower", "reload_hub"]

logger: logging.Logger = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds between two looks at the file."""


async def reload_hub(hub: Hub) -> None:
    """Read the configuration again; one that cannot be used changes nothing."""
    try:
        await hub.reload()
    except PegboardError as error:
        logger.error("The configuration stays as it is: %s", error)  # noqa: TRY400 - no bug of ours
    else:
        logger.info("The configuration was read again: %d servers.", len(hub.servers))


class FileFollower:
    """Reloads a hub whenever its file changes, from when this was made."""

    def __init__(self, source: str | Mapping[str, Any] | None) -> None:
        self._path = None if isinstance(source, Mapping) else locate_config(source).path
        self._known = None if self._path is None else _looks(self._path)

    async def follow(self, hub: Hub) -> None:
        """Look at the file for as long as this runs."""
        if self._path is None:
            return
        while True:
            now = await anyio.to_thread.run_sync(_looks, self._path)
            if now is not None and now != self._known:
                self._known = now
                await reload_hub(hub)
            await anyio.sleep(LOOK_EVERY)


def _looks(path: Path) -> tuple[int, int, int] | None:
    """Return by what a change is seen; ``None`` while somebody replaces the file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
