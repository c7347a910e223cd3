"""Lazy values: a property made on first access, and a tool whose schemas are decoded on access."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

import msgspec

from pegboard.model.json_values import freeze
from pegboard.model.tool import Tool

__all__ = ["LazyProperty", "LazyTool"]

Value = TypeVar("Value")


class LazyProperty(Generic[Value]):
    """A cached property without a lock: it makes its value when it is first read.

    Up to Python 3.11 `functools.cached_property` has one lock for all owners, and a child that is
    forked while it is held waits for ever. Here two threads may make the value twice; the first
    value is kept.
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


# Where the values really are: the properties of the class below hide these.
_SLOTS = {name: Tool.__dict__[name] for name in ("input_schema", "output_schema")}


class LazyTool(Tool, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that was validated when it was first registered, and now comes from a store.

    Its schemas may be given as `msgspec.Raw`: of thousands of stored tools few are ever looked at,
    and as text they take a third of the memory and a tenth of the time. In every other way it is a
    `Tool`, and equal to one with the same content.
    """

    def __post_init__(self) -> None:
        """Skip validation, which was done before the tool was stored."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tool):
            return NotImplemented
        return all(getattr(self, it) == getattr(other, it) for it in Tool.__struct_fields__)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        fields = ", ".join(f"{it}={getattr(self, it)!r}" for it in Tool.__struct_fields__)
        return f"Tool({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _plain, ({it: getattr(self, it) for it in Tool.__struct_fields__},)


def _plain(fields: dict[str, Any]) -> Tool:
    return Tool(**fields)


def _read_when_asked(name: str) -> property:
    slot = _SLOTS[name]

    def read(self: LazyTool) -> Any:
        value = slot.__get__(self)
        if isinstance(value, msgspec.Raw):
            value = freeze(msgspec.json.decode(value))
            slot.__set__(self, value)
        return value

    return property(read)


# Not in the class: there they would be taken for defaults of the fields.
for _name in _SLOTS:
    setattr(LazyTool, _name, _read_when_asked(_name))
