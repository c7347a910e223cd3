"""Startup: the servers start in the background while the first clients are already served."""

import anyio

from pegboard.gateway.catalog.startup_wait import PATIENCE
from pegboard.hub import Hub

__all__ = ["Startup"]


class Startup:
    """Opens a hub in the background, and tells when this process is ready for clients."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.is_open: bool = False
        """Whether the hub is open, or cannot be opened."""
        self._opened = anyio.Event()
        self._done = anyio.Event()
        self.error: Exception | None = None
        """Why the hub cannot be opened."""

    @property
    def is_done(self) -> bool:
        """Whether the hub is open, and each server has started, failed or taken too long."""
        return self._done.is_set() and self.error is None

    async def run(self) -> None:
        """Open the hub, and give its servers a few seconds."""
        try:
            await self._hub.start(wait=False)
            self._note_open()
            # A server that hangs must not keep the others from being used.
            await self._hub.started(until=PATIENCE)
        except Exception as error:  # noqa: BLE001 - `run` raises it again at the end
            self.error = error
        finally:
            self._note_open()
            self._done.set()

    async def wait(self) -> None:
        """Return once the hub is open: its configuration and its cached tools are read."""
        if not self.is_open:
            with anyio.move_on_after(PATIENCE):
                await self._opened.wait()

    async def finished(self) -> None:
        """Return once the hub is open and its servers had their few seconds.

        Raises:
            Exception: the error that kept the hub from being opened.
        """
        await self._done.wait()
        if self.error is not None:
            raise self.error

    def _note_open(self) -> None:
        self.is_open = True
        self._opened.set()
