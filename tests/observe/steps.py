"""A store in which something can happen before any step of somebody else's work."""

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, cast

from pegboard.storage import ANY, KeyValues, Revision, Store, StoredValue

__all__ = ["Killed", "step_by_step"]


class Killed(BaseException):
    """The end of a process."""


def step_by_step(store: Store, before: Callable[[int], None]) -> Store:
    """Return a store that calls a function with 1, 2, 3 before what is done with its values."""
    return cast("Store", _Steps(store, before))


class _Steps:
    def __init__(self, store: Store, before: Callable[[int], None]) -> None:
        self.url = store.url
        self._store = store
        self._before = before
        self._numbers = count(1)

    def namespace(self, name: str) -> "_StepValues":
        return _StepValues(self._store.namespace(name), self.step)

    def step(self) -> None:
        self._before(next(self._numbers))


class _StepValues:
    def __init__(self, values: KeyValues, step: Callable[[], None]) -> None:
        self._values = values
        self._step = step

    def items(self) -> Mapping[str, StoredValue]:
        self._step()
        return self._values.items()

    def put(self, key: str, value: Any, *, expected: Revision = ANY) -> int:
        self._step()
        return self._values.put(key, value, expected=expected)

    def delete(self, keys: Iterable[str]) -> int:
        self._step()
        return self._values.delete(keys)
