"""Leases: one process at a time does a job, on stores that have no locks of their own."""

import os
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import cast

from pegboard.errors import RevisionConflictError, StorageError
from pegboard.storage.store import KeyValues

__all__ = ["LEASES", "lease"]

LEASES = "leases"
"""The namespace they are kept in."""
SECONDS = 60.0
"""After that a holder counts as dead; jobs are shorter."""


@contextmanager
def lease(values: KeyValues, job: str) -> Generator[bool]:
    """Give True to one holder of a job at a time, False to everybody else."""
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
        # Unless somebody else thought us dead, or the store is gone: the lease runs out by itself.
        with suppress(StorageError):
            values.put(job, {"holder": "", "until": 0.0}, expected=revision)


def _held(value: object, now: float) -> bool:
    until = cast("dict[str, object]", value).get("until") if isinstance(value, dict) else None
    # No further than a lease goes: whoever wrote that had a wrong clock.
    return isinstance(until, float) and now < until <= now + SECONDS
