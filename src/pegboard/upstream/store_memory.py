"""StoreMemory: what servers offered when last seen, kept in a store."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from pegboard.errors import StorageError
from pegboard.storage import Store
from pegboard.upstream.memory import Remembered
from pegboard.upstream.memory_key import DAY, KEPT_FOR, SERVERS

__all__ = ["StoreMemory"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

USES = "servers-used"
"""The namespace that says of each key on which day it was last used, counted from the epoch."""
_EVERY = 7
"""Days after which a use is noted again."""


class StoreMemory:
    """Remembers in a store, so that all processes that share it share what one has learned.

    What none of them has used for 90 days is forgotten.

    Args:
        store: gives the store, which may be opened later than this.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._noted: dict[str, int] = {}

    def load(self, keys: Iterable[str]) -> Mapping[str, Remembered]:
        """Return what is known under these keys; what cannot be understood counts as unknown."""
        found: dict[str, Remembered] = {}
        values = self._store().namespace(SERVERS)
        for key in keys:
            stored = values.text(key)
            if stored is not None:
                try:
                    found[key] = msgspec.json.decode(stored, type=Remembered)
                except (msgspec.MsgspecError, RecursionError) as error:
                    logger.warning("memory_unreadable: %s", error, extra={"reason": str(error)})
        self._note_uses(found)
        return found

    def save(self, key: str, remembered: Remembered) -> None:
        """Keep what a server offers now."""
        values = self._store().namespace(SERVERS)
        values.put(key, msgspec.json.decode(msgspec.json.encode(remembered)))
        self._note_uses([key])

    def _note_uses(self, keys: Collection[str]) -> None:
        today = int(time.time() // DAY)
        due = {key for key in keys if today - self._noted.get(key, 0) >= _EVERY}
        if not due:
            return
        try:
            self._forget_unused(due, today)
        except StorageError as error:
            # Not everybody who may read it may write to it.
            logger.debug("memory_not_tidied: %s", error, extra={"reason": str(error)})
        self._noted |= dict.fromkeys(due, today)

    def _forget_unused(self, used: set[str], today: int) -> None:
        """Note what is used today, and forget what others have not used for long either."""
        values, uses = self._store().namespace(SERVERS), self._store().namespace(USES)
        days = {key: it.value for key, it in uses.items().items() if isinstance(it.value, int)}
        # Of what was remembered before there were these notes, the time begins now.
        unnoted = set(values.keys()) - days.keys()
        stale = {key for key in used if today - days.get(key, 0) >= _EVERY}
        if unnoted or stale:
            uses.put_many(dict.fromkeys(unnoted | stale, today))
        limit = today - KEPT_FOR / DAY
        unused = [key for key, day in days.items() if day < limit and key not in used]
        if unused:
            values.delete(unused)
            uses.delete(unused)
