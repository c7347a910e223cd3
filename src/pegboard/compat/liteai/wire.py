"""What a server sends, as objects like those of the MCP SDK, in its old and its new spelling."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["ContentBlock", "Tool", "ToolResult"]


class _WireObject:
    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)

    def __getattr__(self, name: str) -> Any:
        # Before the constructor ran, as in a copy, there are no fields to look into.
        fields = self.__dict__.get("_fields", {})
        for key in (name, _camel_case(name)):
            if key in fields:
                return fields[key]
        raise AttributeError(f"This {type(self).__name__} has no field {name!r}.")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        # What a server sent is compared by value, and may hold lists and dicts.
        raise TypeError(f"A {type(self).__name__} cannot be a key.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._fields!r})"

    def model_dump(self) -> dict[str, Any]:
        """Return everything the server sent, as a dict of one's own."""
        return copy.deepcopy(self._fields)


class Tool(_WireObject):
    """The definition of a tool; `inputSchema` and `input_schema` are the same."""

    @property
    def name(self) -> str:
        """The name the server has for it."""
        return self._fields["name"]

    @property
    def description(self) -> str | None:
        """What it does; ``None`` when the server does not say."""
        return self._fields.get("description")

    @property
    def inputSchema(self) -> dict[str, Any]:  # noqa: N802 - as the document spells it
        """The JSON Schema of the arguments."""
        return self._fields.get("inputSchema") or {}

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.inputSchema


class ContentBlock(_WireObject):
    """One block of a result: it has the attributes that the server sent, and no others."""


class ToolResult(list[Any]):
    """The content blocks of a result; `is_error` tells that the tool reported a failure."""

    def __init__(self, blocks: Iterable[object] = (), *, is_error: bool = False) -> None:
        super().__init__(blocks)
        self.is_error = is_error


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
