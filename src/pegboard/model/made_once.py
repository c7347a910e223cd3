"""MadeOnce: a value that is made when first needed, without a lock."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

__all__ = ["MadeOnce"]

Value = TypeVar("Value")


class MadeOnce(Generic[Value]):
    """Makes an attribute when it is first read, and leaves it with its owner.

    Up to Python 3.11 `functools.cached_property` has one lock for all owners, and a child that is
    forked while it is held waits for ever. Here two threads may make the value twice; the first
    one counts.
    """

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type, /) -> Self: ...
    @overload
    def __get__(self, owner: object, kind: type | None = None, /) -> Value: ...
    def __get__(self, owner: object | None, kind: type | None = None, /) -> Self | Value:
        if owner is None:
            return self
        made: Value = owner.__dict__.setdefault(self._name, self._make(owner))
        return made
