"""Startup: the servers start while the first clients are already being answered."""

import anyio

from pegboard.gateway.catalog.startup_wait import PATIENCE
from pegboard.hub import Hub

__all__ = ["Startup"]


class Startup:
    """Opens a hub beside everything else, and tells when clients had better be sent here."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._is_open = anyio.Event()
        self._done = anyio.Event()
        self.error: Exception | None = None
        """Why it cannot be opened."""

    @property
    def is_done(self) -> bool:
        """Whether the hub is open, and each server was tried or is no longer waited for."""
        return self._done.is_set() and self.error is None

    async def run(self) -> None:
        """Open the hub, and give its servers a moment."""
        try:
            await self._hub.start(wait=False)
            self._is_open.set()
            # One that hangs must not keep the others from being used.
            await self._hub.started(until=PATIENCE)
        except Exception as error:  # noqa: BLE001 - raised again by whoever runs the process
            self.error = error
        finally:
            self._is_open.set()
            self._done.set()

    async def wait(self) -> None:
        """Return once the hub is open: the configuration is read, and what is remembered there."""
        if not self._is_open.is_set():
            with anyio.move_on_after(PATIENCE):
                await self._is_open.wait()

    async def finished(self) -> None:
        """Return once the hub is open and its servers had their moment.

        Raises:
            Exception: whatever keeps it from being opened.
        """
        await self._done.wait()
        if self.error is not None:
            raise self.error
