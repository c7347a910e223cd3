"""ExcelManus's host side: `ToolDef`, `ToolRegistry`, and definitions for OpenAI."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal, Protocol, TypeAlias

from pegboard.model import ToolResult
from pegboard.model.content import truncate_text
from pegboard.registry import Registry
from pegboard.toolsets import OpenAIApi, Toolset
from pegboard.toolsets.model_arguments import ANY_LEGAL, aliases_of, restore_names
from pegboard.toolsets.references import inline

__all__ = ["HostRegistry", "OpenAISchemaMode", "ToolDef", "ToolRegistry"]

OpenAISchemaMode: TypeAlias = Literal["responses", "chat_completions"]
"""Which of OpenAI's APIs the definitions are for."""

_APIS: dict[OpenAISchemaMode, OpenAIApi] = {"responses": "responses", "chat_completions": "chat"}


@dataclass
class ToolDef:
    """A tool of the host: its definition for a model, and its function."""

    name: str
    description: str
    input_schema: dict[str, Any]
    func: Callable[..., Any]
    max_result_chars: int = 0
    """The length at which a text is cut, with a mark; 0 cuts nothing."""

    def truncate_result(self, text: str) -> str:
        """Return the text as `ToolRegistry.call_tool` returns it to a model."""
        return truncate_text(text, self.max_result_chars) if self.max_result_chars > 0 else text


class HostRegistry(Protocol):
    """What `MCPManager` needs of a host's registry, ours or its own."""

    def get_tool(self, tool_name: str, /) -> Any:
        """Return the tool of that name, or ``None``."""
        ...

    def register_tools(self, tools: Iterable[ToolDef], /) -> object:
        """Register tools whose names are free."""
        ...


class ToolRegistry:
    """Built-in and remote tools by name, which callers use in the same way."""

    def __init__(self) -> None:
        self.registry: Registry = Registry(validation=None)
        """The core registry underneath."""
        self._view = _View(self.registry)
        self._tools: dict[str, ToolDef] = {}

    def register_tool(self, tool: ToolDef) -> None:
        """Register one tool.

        Raises:
            ToolConflictError: when its name is taken.
            InvalidToolError: when its definition is broken.
        """
        self.register_tools([tool])

    register = register_tool

    def register_tools(self, tools: Iterable[ToolDef], *, replacing: Iterable[str] = ()) -> None:
        """Register all of them, or none if one is refused.

        Args:
            tools: what to register.
            replacing: the names of tools to remove in the same step.

        Raises:
            ToolConflictError: when a name is taken.
            InvalidToolError: when a definition is broken.
        """
        given, leaving = list(tools), set(replacing)
        self.registry.register_many([_as_object(tool) for tool in given], replacing=leaving)
        for name in leaving:
            self._tools.pop(name, None)
        self._tools.update({tool.name: tool for tool in given})

    def get_tool(self, tool_name: str) -> ToolDef | None:
        """Return the tool of that name, or ``None``."""
        return self._tools.get(tool_name)

    def get_all_tools(self) -> list[ToolDef]:
        """Return all tools, in the order they were registered."""
        return list(self._tools.values())

    def get_tool_names(self) -> list[str]:
        """Return the names of all tools."""
        return list(self._tools)

    def get_openai_schemas(self, mode: OpenAISchemaMode = "responses") -> list[dict[str, Any]]:
        """Return all tools in the form for OpenAI.

        A name that OpenAI would refuse is changed; `call_tool` accepts both names.
        """
        if mode not in _APIS:
            raise ValueError(f"`mode` must be 'responses' or 'chat_completions', not {mode!r}.")
        return self._view.openai(api=_APIS[mode])

    def call_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool, and return its result or raise its error; long texts are cut with a mark.

        Raises:
            ToolNotFoundError: when there is no such tool; it is a `KeyError`.
            ToolExecutionError: when a remote tool reports a failure.
        """
        name = self._view.name_in_registry(tool_name)
        return ToolResult.of(self.registry.call(name, arguments)).value()


class _View(Toolset):
    def name_in_registry(self, name: str) -> str:
        """Return the name of a tool that is given its own name, or the one OpenAI has for it."""
        return self._view.find(name).source.name


def _as_object(tool: ToolDef) -> SimpleNamespace:
    @functools.cache
    def originals() -> dict[str, str]:
        aliases = aliases_of(inline(tool.input_schema), ANY_LEGAL)
        return {alias: name for name, alias in aliases.items()}

    def call(arguments: dict[str, Any]) -> Any:
        # The names that OpenAI was given instead of those it refuses; all else goes on as it is.
        given = restore_names(arguments, originals()) if originals() else arguments
        value = tool.func(**given)
        return tool.truncate_result(value) if isinstance(value, str) else value

    return SimpleNamespace(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        call=call,
    )
