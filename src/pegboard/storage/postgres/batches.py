"""Batches: what is sent to the server at once is bounded, in number and in size."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["batches"]

Item = TypeVar("Item")

MOST = 2000
# A message of the protocol ends at 1 GB.
MOST_BYTES = 16 * 1024 * 1024


def batches(items: Iterable[Item], size_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Cut items into batches, none empty."""
    batch: list[Item] = []
    size = 0
    for item in items:
        if batch and (len(batch) == MOST or size > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += size_of(item)
    if batch:
        yield batch
