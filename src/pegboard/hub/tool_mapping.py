"""ToolMapping: the tools of a hub by name, each a callable that takes its arguments by keyword."""

from collections.abc import (
    Callable,
    Coroutine,
    ItemsView,
    Iterator,
    Mapping,
    ValuesView,
)
from typing import Any, Generic, Protocol, TypeVar, cast

from pegboard.errors import PegboardError, ToolNotFoundError
from pegboard.model import Tool, ToolResult
from pegboard.model.tool import DefinedTool
from pegboard.model.tool_names import nearest_names
from pegboard.registry import Registry

__all__ = ["HubTool", "SyncHubTool", "ToolMapping"]

_MOST_LISTED = 5
_LONGEST_LINE = 80

T = TypeVar("T")
U = TypeVar("U")
Result = TypeVar("Result", covariant=True)


class _Call(Protocol[Result]):
    """`Hub.call` or `SyncHub.call`."""

    def __call__(self, name: str, arguments: Mapping[str, Any] | None = None) -> Result: ...


class _CallableTool(DefinedTool, Generic[Result]):
    """A tool that can be called; the definition is that of the moment when it was looked up."""

    def __init__(self, definition: Tool, call: _Call[Result]) -> None:
        self.definition: Tool = definition
        self._call = call

    def __call__(self, /, **arguments: Any) -> Result:
        """Call the tool as `Hub.call` does, which also raises the same errors."""
        return self._call(self.definition.name, arguments)

    def __repr__(self) -> str:
        words = " ".join(self.description.split())
        if len(words) > _LONGEST_LINE:
            words = f"{words[:_LONGEST_LINE]}…"
        return f"<tool {self.name}({_parameters(self.input_schema)}){words and ': '}{words}>"


class HubTool(_CallableTool[Coroutine[Any, Any, ToolResult]]):
    """A tool of a `Hub`: ``await tool(**arguments)`` calls it and returns a `ToolResult`."""


class SyncHubTool(_CallableTool[ToolResult]):
    """A tool of a `SyncHub`: ``tool(**arguments)`` calls it and returns a `ToolResult`."""


class ToolMapping(Mapping[str, T]):
    """The visible tools by name, always the current ones; nothing can be assigned to it.

    A wrong name raises `ToolNotFoundError`, which is a `KeyError` and names similar tools. A loop
    over the names, values or items goes over those that there are when it begins.
    """

    def __init__(
        self,
        registry: Registry,
        make: Callable[[Tool], T],
        *,
        why_missing: Callable[[ToolNotFoundError, str], PegboardError],
    ) -> None:
        self._registry = registry
        self._make = make
        self._why_missing = why_missing

    def of(self, make: Callable[[Tool], U]) -> "ToolMapping[U]":
        """Return the same tools, made into something else."""
        return ToolMapping(self._registry, make, why_missing=self._why_missing)

    def __getitem__(self, name: str) -> T:
        registry = self._registry
        if not registry.shows(name):
            raise self._missing(name)
        return self._make(registry.get(name))

    def __iter__(self) -> Iterator[str]:
        return iter([tool.name for tool in self._registry.tools()])

    def __len__(self) -> int:
        return len(self._registry.tools())

    def __contains__(self, name: object) -> bool:
        return self._registry.shows(name)

    def items(self) -> ItemsView[str, T]:
        """Return the names and tools that there are now."""
        return self._now().items()

    def values(self) -> ValuesView[T]:
        """Return the tools that there are now."""
        return self._now().values()

    def __repr__(self) -> str:
        names = list(self)
        listed = ", ".join(map(repr, names[:_MOST_LISTED]))
        more = len(names) - _MOST_LISTED
        rest = f" and {more} more" if more > 0 else ""
        return f"<{len(names)} tools{listed and ': '}{listed}{rest}>"

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def _now(self) -> dict[str, T]:
        return {tool.name: self._make(tool) for tool in self._registry.tools()}

    def _missing(self, name: object) -> ToolNotFoundError:
        error = ToolNotFoundError(name, nearest=nearest_names(name, self))
        if not isinstance(name, str):
            return error
        why = self._why_missing(error, name)
        if isinstance(why, ToolNotFoundError):
            return why
        # A mapping promises a KeyError, also where `call` would say that a server is down.
        error.args = why.args
        error.__cause__ = why
        return error


def _parameters(schema: Mapping[str, Any]) -> str:
    """Return the arguments as a signature would show them, the required ones first."""
    properties: object = schema.get("properties")
    if not isinstance(properties, Mapping):
        return ""
    declared = cast("Mapping[str, object]", properties)
    required: object = schema.get("required")
    needed = [it for it in declared if isinstance(required, list) and it in required]
    return ", ".join(
        [*needed, *(_optional(it, declared[it]) for it in declared if it not in needed)]
    )


def _optional(name: str, schema: object) -> str:
    if isinstance(schema, Mapping) and "default" in schema:
        return f"{name}={cast('Mapping[str, object]', schema)['default']!r}"
    return f"{name}=…"
