"""Failed starts: servers that failed lately, which one-shot commands do not start again."""

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from typing import cast
from urllib.request import getproxies

import msgspec

from pegboard.config import ServerConfig
from pegboard.config.network_variables import network_variables
from pegboard.storage.store import KeyValues, Store
from pegboard.upstream.catalog.offline_catalog import KEPT_FOR, catalog_key

__all__ = ["FailedStart", "FailedStarts"]

_NAMESPACE = "failed-starts"
_TRIED_AGAIN_AFTER = 600.0


class FailedStart(msgspec.Struct, frozen=True, kw_only=True):
    """Why a server could not be started, and when."""

    error: str
    """The message, without secrets."""
    at: float
    """Seconds since the epoch."""

    @property
    def is_fresh(self) -> bool:
        """True while it is too early to try again."""
        return 0 <= time.time() - self.at < _TRIED_AGAIN_AFTER


class FailedStarts:
    """The failed starts in a store; a changed configuration makes a server count as new."""

    def __init__(self, store: Store) -> None:
        self._values: KeyValues = store.namespace(_NAMESPACE)

    def get(self, config: ServerConfig) -> FailedStart | None:
        """Return the failure of the last start of a server, if it failed.

        Raises:
            StorageError: when the store cannot be read.
        """
        stored = self._values.get(catalog_key(config))
        value: object = None if stored is None else stored.value
        if not isinstance(value, Mapping):
            return None
        found = dict(cast("Mapping[str, object]", value))
        if found.pop("way", None) != _way_to(config):
            return None
        try:
            return msgspec.convert(found, FailedStart)
        except msgspec.ValidationError:
            return None

    def note(self, tried: Iterable[ServerConfig], failed: Mapping[str, str]) -> None:
        """Store the failures of servers that were started now, by name; forget the others.

        Raises:
            StorageError: when the store cannot be written.
        """
        configs = list(tried)
        known = self._values.items()
        well = [
            key for it in configs if it.name not in failed and (key := catalog_key(it)) in known
        ]
        old = [key for key, it in known.items() if _is_old(it.value)]
        if well or old:
            self._values.delete([*well, *old])
        for config in configs:
            if config.name in failed:
                said = {"error": config.redact(failed[config.name]), "at": time.time()}
                self._values.put(catalog_key(config), {**said, "way": _way_to(config)})


def _way_to(config: ServerConfig) -> str:
    """Return a text that changes with all that decides whether a server can be reached."""
    # A longer timeout, another CA or another proxy means that it is to be tried again.
    tls = None if config.tls is None else msgspec.structs.astuple(config.tls)
    around = (sorted(network_variables(os.environ).items()), getproxies())
    way = repr((config.timeouts.connect, tls, config.proxy, around))
    return hashlib.sha256(way.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _is_old(value: object) -> bool:
    at = cast("Mapping[str, object]", value).get("at") if isinstance(value, Mapping) else None
    return isinstance(at, int | float) and time.time() - at > KEPT_FOR
