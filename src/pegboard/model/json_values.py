"""Frozen JSON: dicts and lists that cannot be changed.

They are real dicts and lists, so they compare, print and serialise as such; `copy.deepcopy` gives
an ordinary copy that can be edited.
"""

import copy
from collections.abc import Mapping
from typing import Any, NoReturn, cast

__all__ = ["FrozenDict", "FrozenList", "freeze", "object_in"]

_EMPTY: Mapping[str, Any] = {}


def object_in(value: object) -> Mapping[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else."""
    # In this order: nearly always it is a dict, and asking for a Mapping is slow.
    if isinstance(value, (dict, Mapping)):
        return cast("Mapping[str, Any]", value)
    return _EMPTY


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    kind = "dict" if isinstance(self, dict) else "list"
    raise TypeError(f"This {kind} is frozen; edit a `copy.deepcopy` of it instead.")


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: copy.deepcopy(value, memo) for key, value in self.items()}

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses every change."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(value, memo) for value in self]

    def __copy__(self) -> list[Any]:
        return list(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


_CHANGES_OF_BOTH = ("__setitem__", "__delitem__", "clear", "pop")
_CHANGES_OF_DICTS = ("__ior__", "popitem", "setdefault", "update")
_CHANGES_OF_LISTS = (
    "__iadd__",
    "__imul__",
    "append",
    "extend",
    "insert",
    "remove",
    "reverse",
    "sort",
)
for _method in (*_CHANGES_OF_BOTH, *_CHANGES_OF_DICTS):
    setattr(FrozenDict, _method, _refuse)
for _method in (*_CHANGES_OF_BOTH, *_CHANGES_OF_LISTS):
    setattr(FrozenList, _method, _refuse)


# By far the most frequent schema of a parameter: thousands of tools share these few.
_ONLY_A_TYPE: dict[object, FrozenDict] = {
    name: FrozenDict({"type": name})
    for name in ("string", "integer", "number", "boolean", "object", "array", "null")
}
_FINAL = frozenset({str, int, float, bool, type(None), FrozenDict, FrozenList})


def freeze(value: object) -> Any:
    """Copy JSON containers at every depth into frozen ones; other values stay as they are."""
    # In this order: asking for a Mapping is slow, and most values are none.
    kind = type(value)
    if kind in _FINAL:
        return value
    if kind is dict:
        return _frozen_dict(cast("dict[str, object]", value))
    if isinstance(value, FrozenDict | FrozenList):
        return value
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        return FrozenDict({key: freeze(item) for key, item in mapping.items()})
    if isinstance(value, list | tuple):
        return FrozenList([freeze(item) for item in cast("list[object]", value)])
    return value


def _frozen_dict(value: dict[str, object]) -> FrozenDict:
    if len(value) == 1 and isinstance(name := value.get("type"), str) and name in _ONLY_A_TYPE:
        return _ONLY_A_TYPE[name]
    return FrozenDict({key: freeze(item) for key, item in value.items()})
