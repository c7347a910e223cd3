"""StoreMemory: what servers offered when last seen, kept in a store."""

import logging
from collections.abc import Callable, Iterable, Mapping

import msgspec

from pegboard.storage import Store
from pegboard.upstream.memory import Remembered
from pegboard.upstream.memory_key import SERVERS

__all__ = ["StoreMemory"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")


class StoreMemory:
    """Remembers in a store, so that all processes that share it share what one has learned.

    Args:
        store: gives the store, which may be opened later than this.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def load(self, keys: Iterable[str]) -> Mapping[str, Remembered]:
        """Return what is known under these keys; what cannot be understood counts as unknown."""
        found: dict[str, Remembered] = {}
        values = self._store().namespace(SERVERS)
        for key in keys:
            stored = values.get(key)
            if stored is not None:
                try:
                    found[key] = msgspec.convert(stored.value, Remembered)
                except msgspec.ValidationError as error:
                    logger.warning("memory_unreadable: %s", error, extra={"reason": str(error)})
        return found

    def save(self, key: str, remembered: Remembered) -> None:
        """Keep what a server offers now."""
        values = self._store().namespace(SERVERS)
        values.put(key, msgspec.json.decode(msgspec.json.encode(remembered)))
