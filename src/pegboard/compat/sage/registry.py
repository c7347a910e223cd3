"""SAGE's `MCPRegistry`: register, describe, call; no transport and no MCP SDK."""

import inspect
from typing import Any, Unpack, cast

import anyio.to_thread

from pegboard.errors import InvalidToolError, ToolNotFoundError
from pegboard.model.tool_names import nearest_names
from pegboard.policies import PolicyOptions
from pegboard.registry import Registry

__all__ = ["MCPRegistry"]


class MCPRegistry:
    """The tools of this process by name, as SAGE keeps them.

    The registry holds the objects themselves, so a change of an object after `register` is seen. A
    second tool of the same name replaces the first, and a tool gets its arguments unchecked.
    Policies change that: ``MCPRegistry(validation=Validation(), deadline=Deadline(30))``.
    """

    def __init__(self, **policies: Unpack[PolicyOptions]) -> None:
        self._tools: dict[Any, Any] = {}
        options: PolicyOptions = {"validation": None, **policies}
        self.registry: Registry | None = Registry(**options) if policies else None
        """The core registry that applies the policies; ``None`` when there are none."""

    def register(self, tool_obj: Any) -> None:
        """Register an object with `name` and `call(arguments)`.

        Raises:
            TypeError: when it lacks one of them.
        """
        absent = [f"no `{it}`" for it in ("name", "call") if not hasattr(tool_obj, it)]
        if absent:
            kind = type(tool_obj).__name__
            words = f"An object of type {kind!r} is not a tool: it has {' and '.join(absent)}."
            raise InvalidToolError(words)
        name = tool_obj.name
        if self.registry is not None:
            self.registry.register(_LiveTool(tool_obj), on_conflict="override")
        self._tools[name] = tool_obj

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return ``{name: {"description": ..., "input_schema": ...}}`` for a planner."""
        tools = self._tools.copy()
        if self.registry is not None:
            shown = {it.name for it in self.registry.tools()}
            tools = {name: it for name, it in tools.items() if name in shown}
        return {
            name: {
                "description": getattr(it, "description", ""),
                "input_schema": getattr(it, "input_schema", {}),
            }
            for name, it in tools.items()
        }

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run a tool, and return its value or raise its exception unchanged.

        A tool whose `call` is a coroutine function returns a coroutine, as in SAGE; with policies
        the call waits for its value.

        Raises:
            KeyError: when there is no such tool.
        """
        if self.registry is not None:
            return self.registry.call(name, arguments)
        if name not in self._tools:
            raise ToolNotFoundError(name, nearest=nearest_names(name, list(self._tools)))
        return self._tools[name].call(arguments)

    async def acall(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run a tool from asynchronous code; a synchronous tool runs in a thread.

        Raises:
            KeyError: when there is no such tool.
        """
        if self.registry is not None:
            return await self.registry.acall(name, arguments)
        value = await anyio.to_thread.run_sync(self.call, name, arguments)
        return await value if inspect.isawaitable(value) else value

    def execute(self, data: Any = None) -> Any:
        """Carry out a message: describe the tools, or call one.

        ``None``, ``"describe"``, and an object with neither ``op`` nor ``name`` or with ``"op":
        "describe"`` and no ``name`` describe the tools. ``{"name": ..., "arguments": {...}}``, with
        or without a known ``op``, calls a tool.

        Raises:
            ValueError: for an unknown ``op``, or a call without a name.
            TypeError: when the message or the arguments are not objects.
        """
        if data is None or data == "describe":
            return self.describe()
        if not isinstance(data, dict):
            kind = type(data).__name__
            raise TypeError(f"`execute` expects None/'describe' or a dict, not {kind!r}.")
        message = cast("dict[str, Any]", data)
        if "name" not in message and message.get("op", "describe") == "describe":
            return self.describe()
        op = message.get("op")
        if op not in (None, "call", "describe"):
            raise ValueError(f"Unsupported op {op!r}; the known ones are 'describe' and 'call'.")
        name, arguments = message.get("name"), message.get("arguments", {})
        if not isinstance(name, str) or not name:
            raise ValueError(f"Missing or invalid 'name' of a tool: {name!r}.")
        if not isinstance(arguments, dict):
            raise TypeError(f"'arguments' must be a dict, not {type(arguments).__name__!r}.")
        return self.call(name, cast("dict[str, Any]", arguments))


class _LiveTool:
    """A tool as it is now, for the core registry, which reads an object once."""

    def __init__(self, tool_obj: Any) -> None:
        self._tool = tool_obj

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    def call(self, arguments: dict[str, Any]) -> Any:
        return self._tool.call(arguments)
