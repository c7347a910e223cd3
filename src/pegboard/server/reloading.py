"""Reloading: servers come and go with the configuration, the others work on."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from pegboard.auth import load_auth_settings
from pegboard.config import locate_config
from pegboard.errors import ConfigError, PegboardError
from pegboard.hub import Hub
from pegboard.server.settings import load_gateway_settings

__all__ = ["FileFollower", "Reloading"]

logger: logging.Logger = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds between two looks at the file."""

Source = str | Mapping[str, Any] | None
"""The file with the servers, or what is in one; ``None`` to look for it."""


class Reloading:
    """Reads the configuration again when asked to: one time after the other, and none forgotten."""

    def __init__(self, hub: Hub, source: Source) -> None:
        self._hub = hub
        self._source = source
        self._settings: object = None
        self._asked = anyio.Event()

    def note_settings(self) -> None:
        """Take note of what is followed from the start: what the file says of the gateway."""
        self._settings = _settings_in(self._source)

    def ask(self) -> None:
        """Have it read again; however often somebody asks meanwhile, once more is enough."""
        self._asked.set()

    async def run(self) -> None:
        """Do so for as long as this runs, from when the hub is open."""
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            if await self._reload():
                await anyio.to_thread.run_sync(self._compare_settings)

    async def _reload(self) -> bool:
        try:
            # Not waiting: one server that hangs would hold up the next change of the others.
            await self._hub.reload(wait=False)
        except PegboardError as error:
            logger.error("The configuration stays as it is: %s", error)  # noqa: TRY400 - no bug of ours
            return False
        except Exception:
            logger.exception("The configuration stays as it is.")
            return False
        count = len(self._hub.servers)
        servers = "1 server" if count == 1 else f"{count} servers"
        logger.info("The configuration was read again: %s.", servers)
        return True

    def _compare_settings(self) -> None:
        before = self._settings
        self.note_settings()
        if self._settings != before:
            logger.warning(
                "The section `gateway` has changed. It is read at the start only: restart to have "
                "it followed."
            )


class FileFollower:
    """Tells when the file changes, from when this was made."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._path = _located(source)
        self._known = _looks(self._path)

    async def follow(self, on_change: Callable[[], object]) -> None:
        """Look at the file for as long as this runs."""
        if isinstance(self._source, Mapping):
            return
        missed = 0
        while True:
            if self._path is None:
                self._path = await anyio.to_thread.run_sync(_located, self._source)
            now = await anyio.to_thread.run_sync(_looks, self._path)
            missed = missed + 1 if now is None and self._known is not None else 0
            # Once is nothing: somebody may just be replacing it.
            if missed == 2:
                logger.error("The configuration stays as it is: %s is gone.", self._path)
            if now is not None and now != self._known:
                self._known = now
                on_change()
            await anyio.sleep(LOOK_EVERY)


def _located(source: Source) -> Path | None:
    return None if isinstance(source, Mapping) else locate_config(source).path


def _looks(path: Path | None) -> tuple[int, int, int] | None:
    """Return by what a change is seen; ``None`` while there is no file."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


def _settings_in(source: Source) -> object:
    """Return what the file says about the gateway itself, or why that cannot be used."""
    try:
        return load_gateway_settings(source), load_auth_settings(source)
    except ConfigError as error:
        return str(error)
