"""Leaky buckets among the values of a store, which drain by one a second; for rate limits."""

import time
from collections.abc import Mapping
from typing import cast

from pegboard.errors import RevisionConflictError
from pegboard.storage.store import KeyValues

__all__ = ["BUCKETS", "fill"]

BUCKETS = "buckets"
"""The namespace that holds the buckets."""
_ALL = "all"
"""The key of the one value with the moment at which each bucket is empty, in seconds since 1970."""


def fill(values: KeyValues, amounts: Mapping[str, float], *, most: float) -> dict[str, float]:
    """Add to buckets of a store on this machine, all or none, and return their levels."""
    while True:
        found = values.get(_ALL)
        now = time.time()
        empty_at = {
            key: min(it, now + most)
            for key, it in _moments(None if found is None else found.value).items()
            if it > now
        }
        for key, amount in amounts.items():
            empty_at[key] = min(max(empty_at.get(key, now), now) + amount, now + most)
        try:
            values.put(_ALL, empty_at, expected=None if found is None else found.revision)
        except RevisionConflictError:
            continue
        return {key: empty_at[key] - now for key in amounts}


def _moments(value: object) -> dict[str, float]:
    # People edit a JSON store.
    stored = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return {key: it for key, it in stored.items() if isinstance(it, float)}
