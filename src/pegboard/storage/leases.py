"""Leases: locks that expire, so that one process at a time is elected to do a job."""

import os
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import cast

from pegboard.errors import ForkedProcessError, RevisionConflictError, StorageError
from pegboard.storage.store import KeyValues

__all__ = ["LEASES", "lease"]

LEASES = "leases"
"""The namespace that holds the leases."""
SECONDS = 60.0
"""The time after which a holder counts as dead; every job is shorter."""


@contextmanager
def lease(values: KeyValues, job: str) -> Generator[bool]:
    """Yield True to one holder of a job at a time, and False to every other process."""
    found = values.get(job)
    if found is not None and _held(found.value, time.time()):
        yield False
        return
    mine = {"holder": f"{os.getpid()}-{uuid.uuid4()}", "until": time.time() + SECONDS}
    try:
        revision = values.put(job, mine, expected=None if found is None else found.revision)
    except RevisionConflictError:
        yield False
        return
    try:
        yield True
    finally:
        # If another process took the lease, or the store is gone, the lease runs out by itself. A
        # forked child leaves it to its parent.
        with suppress(StorageError, ForkedProcessError):
            values.put(job, {"holder": "", "until": 0.0}, expected=revision)


def _held(value: object, now: float) -> bool:
    until = cast("dict[str, object]", value).get("until") if isinstance(value, dict) else None
    # A lease that ends later was written by a process with a wrong clock.
    return isinstance(until, float) and now < until <= now + SECONDS
