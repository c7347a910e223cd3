"""Tool: what a tool is called, what it does and what it takes."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from pegboard.errors import InvalidToolError
from pegboard.model.frozen import FrozenDict, freeze
from pegboard.model.names import check_name

__all__ = ["Annotations", "Tool"]


class Annotations(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Hints about a tool's behaviour; ``None`` means that nobody said."""

    title: str | None = None
    read_only: bool | None = msgspec.field(default=None, name="readOnlyHint")
    destructive: bool | None = msgspec.field(default=None, name="destructiveHint")
    idempotent: bool | None = msgspec.field(default=None, name="idempotentHint")
    open_world: bool | None = msgspec.field(default=None, name="openWorldHint")


class Tool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The definition of a tool. Its name is its key; schemas are frozen copies."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = msgspec.field(default_factory=FrozenDict)
    output_schema: Mapping[str, Any] | None = None
    annotations: Annotations = Annotations()
    server: str | None = None
    """The upstream server it comes from; ``None`` for a tool of this process."""
    tags: tuple[str, ...] = ()
    category: str | None = None
    defer_loading: bool = False
    """True when a client should load the definition only after finding it by search."""

    def __post_init__(self) -> None:
        fix = msgspec.structs.force_setattr
        fix(self, "name", check_name(self.name))
        fix(self, "input_schema", _frozen_schema(self.name, "input_schema", self.input_schema))
        if self.output_schema is not None:
            fix(
                self,
                "output_schema",
                _frozen_schema(self.name, "output_schema", self.output_schema),
            )
        fix(self, "tags", _strings(self.name, self.tags))
        for field, kind in _KINDS.items():
            value = getattr(self, field)
            if not isinstance(value, kind):
                wanted = getattr(kind, "__name__", kind)
                raise InvalidToolError(
                    f"The {field} of tool {self.name!r} must be of type {wanted}, "
                    f"not {type(value).__name__!r}."
                )

    def __hash__(self) -> int:
        return hash(self.name)


_KINDS = {
    "description": str,
    "annotations": Annotations,
    "server": str | None,
    "category": str | None,
    "defer_loading": bool,
}


def _frozen_schema(name: str, field: str, schema: object) -> FrozenDict:
    if not isinstance(schema, Mapping):
        raise InvalidToolError(
            f"The {field} of tool {name!r} must be a JSON Schema object (a dict), "
            f"not {type(schema).__name__!r}."
        )
    try:
        return freeze(cast("Mapping[str, Any]", schema))
    except RecursionError:
        raise InvalidToolError(f"The {field} of tool {name!r} is nested too deeply.") from None


def _strings(name: str, tags: Iterable[object]) -> tuple[str, ...]:
    found = () if isinstance(tags, str) else tuple(tags)
    strings = tuple(tag for tag in found if isinstance(tag, str))
    if isinstance(tags, str) or len(strings) != len(found):
        raise InvalidToolError(f"The tags of tool {name!r} must be a sequence of strings.")
    return strings
