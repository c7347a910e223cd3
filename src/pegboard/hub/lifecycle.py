"""HubLifecycle: start and close a hub, its store and its servers, one at a time, from any task."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from pegboard.config import ServerConfig
from pegboard.errors import NotConnectedError
from pegboard.registry import Registry
from pegboard.storage import Store, open_store
from pegboard.upstream import CatalogCache, FileCatalogCache, StoreCatalogCache, Supervisor
from pegboard.upstream.owner_loop import OwnerLoop

__all__ = ["HubLifecycle", "HubStorage", "not_open"]


class HubStorage:
    """Lets a registry keep what it knows, for as long as a hub is open.

    Args:
        registry: the board of the hub.
        storage: where it keeps that; ``None`` to keep nothing.
        tenant: whose it is, in a store for several tenants.
    """

    def __init__(
        self, registry: Registry, storage: str | Path | Store | None, *, tenant: str | None
    ) -> None:
        self._registry = registry
        self._storage = storage
        self._tenant = tenant
        self._own: Store | None = None
        self._keeps = False

    def catalog_cache(self) -> CatalogCache:
        """Return the cache of definitions in this storage, or in files if there is none."""
        return FileCatalogCache() if self._storage is None else StoreCatalogCache(self._store)

    async def open(self) -> None:
        """Open the storage, if there is one.

        Raises:
            StorageError: when it cannot be opened or read.
        """
        storage = self._storage
        if storage is None:
            return
        if self._tenant is not None and isinstance(storage, str | Path):
            storage = self._own = await anyio.to_thread.run_sync(
                partial(open_store, storage, tenant=self._tenant)
            )
        await anyio.to_thread.run_sync(self._registry.keep_in, storage)
        self._keeps = True

    async def close(self) -> None:
        """Write what is left, and close what `open` has opened."""
        own, self._own = self._own, None
        if self._keeps:
            self._keeps = False
            await anyio.to_thread.run_sync(self._registry.close)
        if own is not None:
            await anyio.to_thread.run_sync(own.close)

    def _store(self) -> Store:
        store = self._registry.storage
        if store is None:
            raise not_open()
        return store


class HubLifecycle:
    """Opens the storage and the servers of a hub, and closes both; one at a time.

    Args:
        supervisor: all servers of the hub.
        storage: the store of the hub.
        configs: reads the configuration of the servers.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        storage: HubStorage,
        configs: Callable[[], Awaitable[list[ServerConfig]]],
    ) -> None:
        self._supervisor = supervisor
        self._storage = storage
        self._configs = configs
        self._is_up: object = None
        self._starting: anyio.CancelScope | None = None
        self._lock: tuple[object, anyio.Lock] | None = None

    async def start(self, *, wait: bool) -> None:
        """Open everything; see `Hub.start`. A second call does nothing."""
        await self._owner_loop.open()
        await self._owner_loop.run(lambda: self._start_alone(wait=wait))

    async def close(self) -> None:
        """Close everything; a start under way is cancelled."""
        with anyio.CancelScope(shield=True):  # every wait in it has a limit
            if self._owner_loop.is_open:
                await self._owner_loop.run_shutdown(self._close_alone)
            else:
                await self._close_all()

    async def _start_alone(self, *, wait: bool) -> None:
        async with self._turn():
            if self._is_up is not None and self._is_up is self._owner_loop.generation:
                return
            with anyio.CancelScope() as self._starting:
                try:
                    await self._storage.open()
                    await self._supervisor.open(await self._configs(), wait=wait)
                    if wait:
                        self._supervisor.raise_conflict()
                    self._is_up = self._owner_loop.generation
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        await self._owner_loop.run_to_end(self._close_all)
                    raise
            if self._starting.cancelled_caught:
                raise NotConnectedError("The hub was closed while it was starting.", server="")

    async def _close_alone(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
        async with self._turn():
            self._is_up = None
            await self._close_all()

    async def _close_all(self) -> None:
        await self._supervisor.close()
        await self._storage.close()

    def _turn(self) -> anyio.Lock:
        """Return the lock of starting and closing, which belongs to the loop of the hub."""
        loop = self._owner_loop.loop
        if self._lock is None or self._lock[0] is not loop:
            self._lock = (loop, anyio.Lock())
        return self._lock[1]

    @property
    def _owner_loop(self) -> OwnerLoop:
        return self._supervisor.owner_loop


def not_open() -> NotConnectedError:
    """Return the error of a hub that is used before it is opened, or after it was closed."""
    return NotConnectedError(
        "This hub is not open: enter it with `async with`, or `await hub.start()`.", server=""
    )
