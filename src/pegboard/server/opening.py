"""Opening: the servers start while the first clients are already being answered."""

import anyio

from pegboard.hub import Hub

__all__ = ["Opening"]

PATIENCE = 5.0
"""Seconds that a request waits for servers that are still starting."""


class Opening:
    """Starts a hub beside everything else: one slow server must not keep every client waiting."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._done = anyio.Event()
        self.error: Exception | None = None
        """Why it cannot be opened."""

    @property
    def is_done(self) -> bool:
        """Whether every server that is to be started was tried, and the hub is open."""
        return self._done.is_set() and self.error is None

    async def run(self) -> None:
        """Start the hub."""
        try:
            await self._hub.start()
        except Exception as error:  # noqa: BLE001 - raised again by whoever runs the process
            self.error = error
        finally:
            self._done.set()

    async def wait(self) -> None:
        """Return once the hub is open, or when that takes too long to wait for."""
        if not self._done.is_set():
            with anyio.move_on_after(PATIENCE):
                await self._done.wait()

    async def finished(self) -> None:
        """Return once the hub is open, however long that takes.

        Raises:
            Exception: whatever keeps it from being opened.
        """
        await self._done.wait()
        if self.error is not None:
            raise self.error
