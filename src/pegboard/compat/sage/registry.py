"""SAGE's `MCPRegistry`: register, describe, call; no transport and no MCP SDK."""

from collections.abc import Mapping
from typing import Any, Unpack, cast

from pegboard.policies import PolicyOptions
from pegboard.registry import Registry

__all__ = ["MCPRegistry"]


class MCPRegistry:
    """The tools of this process by name, with the behaviour of the document.

    A second tool of the same name replaces the first, and arguments are not validated. Policies
    change that: ``MCPRegistry(validation=Validation(), deadline=Deadline(30))``.
    """

    def __init__(self, **policies: Unpack[PolicyOptions]) -> None:
        options: PolicyOptions = {"validation": None, **policies}
        self.registry: Registry = Registry(**options)
        """The core registry underneath."""

    def register(self, tool_obj: Any) -> None:
        """Register an object with `name` and `call(arguments)`.

        Raises:
            TypeError: when it lacks one of them.
        """
        self.registry.register(tool_obj, on_conflict="override")

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return ``{name: {"description": ..., "input_schema": ...}}`` for a planner."""
        return self.registry.describe()

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run a tool, and return its value or raise its exception unchanged.

        Raises:
            KeyError: when there is no such tool.
        """
        return self.registry.call(name, arguments)

    async def acall(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run a tool from asynchronous code.

        Raises:
            KeyError: when there is no such tool.
        """
        return await self.registry.acall(name, arguments)

    def execute(self, data: object = None) -> Any:
        """Carry out a message: describe the tools, or call one.

        ``None``, ``"describe"`` and ``{"op": "describe"}`` describe the tools. ``{"name": ...,
        "arguments": {...}}``, with or without ``"op": "call"``, calls a tool.

        Raises:
            ValueError: for an unknown ``op``, or a call without a name.
            TypeError: when the message or the arguments are not objects.
        """
        if data is None or data == "describe":
            return self.describe()
        if not isinstance(data, Mapping):
            raise TypeError(f"The message must be an object (a dict), not {type(data).__name__!r}.")
        message = cast("Mapping[str, Any]", data)
        op = message.get("op", "call")
        if op == "describe":
            return self.describe()
        if op != "call":
            raise ValueError(f"Unsupported op {op!r}; the known ones are 'describe' and 'call'.")
        name = message.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError("A call needs the `name` of a tool.")
        arguments = message.get("arguments", {})
        if not isinstance(arguments, dict):
            raise TypeError(
                f"`arguments` must be an object (a dict), not {type(arguments).__name__!r}."
            )
        return self.call(name, cast("dict[str, Any]", arguments))
