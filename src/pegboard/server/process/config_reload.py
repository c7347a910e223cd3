"""ConfigReload: follow changes of the configuration files without a restart."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from pegboard.auth import load_auth_settings
from pegboard.config import locate_config
from pegboard.errors import ConfigError, PegboardError
from pegboard.hub import Hub
from pegboard.server.process.assembly import Serving
from pegboard.server.settings import load_gateway_settings

__all__ = ["ConfigReload"]

logger: logging.Logger = logging.getLogger("pegboard.server")

LOOK_EVERY = 1.0
"""Seconds between two checks of the files."""

Source = str | Mapping[str, Any] | None
"""The file with the servers, or its content; ``None`` to look for the file."""
FindHub = Callable[[], Awaitable[Hub | None]]
"""Returns the hub of a tenant; ``None`` while it is not open, since opening reads the file."""


class ConfigReload:
    """Reloads the servers of each tenant when its configuration file changes.

    Each file is read by one task at a time, and no change is missed.
    """

    def __init__(self, serving: Serving, source: Source) -> None:
        async def first() -> Hub:
            return serving.hub

        self._section: object = None
        self._main = _File(source, first, "The configuration")
        find = serving.gateway.hub_of
        self._files = [
            self._main,
            *(
                _File(path, partial(find, name), f"The configuration of tenant {name!r}")
                for name, path in serving.tenants.items()
            ),
        ]

    def note(self) -> None:
        """Note the present state of the files; later changes are followed. May block."""
        self._changed()
        self._section = _section_in(self._main.place)

    def ask(self) -> None:
        """Have all files read again; requests that come before the reading count as one."""
        for file in self._files:
            file.asked.set()

    async def run(self) -> None:
        """Follow the files for as long as this runs; the first hub must be open."""
        async with anyio.create_task_group() as tasks:
            for file in self._files:
                tasks.start_soon(self._read_when_asked, file)
            while True:
                for file in await anyio.to_thread.run_sync(self._changed):
                    file.asked.set()
                await anyio.sleep(LOOK_EVERY)

    def _changed(self) -> list["_File"]:
        return [file for file in self._files if file.has_changed()]

    async def _read_when_asked(self, file: "_File") -> None:
        while True:
            await file.asked.wait()
            file.asked = anyio.Event()
            hub = await file.find_hub()
            if hub is not None and await _reload(hub, file.name) and file is self._main:
                await anyio.to_thread.run_sync(self._compare_section)

    def _compare_section(self) -> None:
        before, self._section = self._section, _section_in(self._main.place)
        if self._section != before:
            logger.warning(
                "The section `gateway` has changed. It is read only at the start: restart to apply "
                "it."
            )


class _File:
    """A configuration file, and the hub of its servers."""

    def __init__(self, source: Source, find_hub: FindHub, name: str) -> None:
        self.find_hub = find_hub
        self.name = name
        self.asked = anyio.Event()
        self._source = source
        self._path: Path | None = None
        self._known: tuple[int, int, int] | None = None
        self._missed = 0

    @property
    def place(self) -> Source:
        """Where it is read: once it was found, only there."""
        return self._source if self._path is None else str(self._path)

    def has_changed(self) -> bool:
        """Check the file, and tell whether it has changed since the last check."""
        if self._path is None:
            self._path = _located(self._source)
        now = _looks(self._path)
        self._missed = self._missed + 1 if now is None and self._known is not None else 0
        # One miss is nothing: an editor may just be replacing the file.
        if self._missed == 2:
            logger.error("%s stays as it is: %s is gone.", self.name, self._path)
        if now is None or now == self._known:
            return False
        self._known = now
        return True


async def _reload(hub: Hub, name: str) -> bool:
    try:
        # Without waiting: a server that hangs would delay the next change of the others.
        await hub.reload(wait=False)
    except PegboardError as error:
        logger.error("%s stays as it is: %s", name, error)  # noqa: TRY400 - no bug of ours
        return False
    except Exception:
        logger.exception("%s stays as it is.", name)
        return False
    count = len(hub.servers)
    servers = "1 server" if count == 1 else f"{count} servers"
    logger.info("%s was read again: %s.", name, servers)
    return True


def _located(source: Source) -> Path | None:
    try:
        return None if isinstance(source, Mapping) else locate_config(source).path
    except ConfigError:
        # There is no file, or not yet.
        return None


def _looks(path: Path | None) -> tuple[int, int, int] | None:
    """Return what changes with the file; ``None`` while there is no file."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


def _section_in(source: Source) -> object:
    """Return the gateway settings of the file, or the message why they cannot be used."""
    try:
        return load_gateway_settings(source), load_auth_settings(source)
    except ConfigError as error:
        return str(error)
