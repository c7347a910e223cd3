"""BuiltinTool: a tool of the gateway itself, such as `search_tools`, and who calls it."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from pegboard.errors import PegboardError, ToolNotFoundError
from pegboard.gateway.errors import error_result, failure_of
from pegboard.gateway.request import Client, ClientRequest
from pegboard.gateway.visibility import Visibility
from pegboard.model import ArgumentSchema, Principal, Tool
from pegboard.policies import holds
from pegboard.policies.access import METHODS

__all__ = [
    "CATEGORIES",
    "OWN_NAMES",
    "OWN_RESOURCES",
    "STATS",
    "BuiltinTool",
    "CallerContext",
    "Run",
    "respond",
]

CATEGORIES = "registry://categories"
STATS = "registry://stats"
OWN_RESOURCES = (CATEGORIES, STATS)


OWN_NAMES = frozenset(
    {
        "search_tools",
        "get_tool_definition",
        "list_tools_by_category",
        "call_tool",
        "read_result",
        "register_tool",
        "unregister_tool",
    }
)


class CallerContext(msgspec.Struct, frozen=True):
    """One request, and the part of the catalogue that its sender may see."""

    request: ClientRequest
    visibility: Visibility

    @property
    def client(self) -> Client:
        """The client that sent the request."""
        return self.request.client

    @property
    def owner(self) -> str:
        """The subject that owns what the gateway keeps for this caller, such as cached results."""
        return self.request.client.principal.subject


Run = Callable[[CallerContext, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Returns the raw result of a call; the arguments are already validated and have their defaults."""


class BuiltinTool:
    """A definition, and the function that runs it."""

    def __init__(self, definition: Tool, run: Run) -> None:
        self.definition = definition
        self._schema = ArgumentSchema(definition.input_schema, tool=definition.name)
        properties: dict[str, Any] = definition.input_schema.get("properties", {})
        self._whole = [key for key, it in properties.items() if it.get("type") == "integer"]
        self._run = run

    async def call(self, caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the raw result; a failure becomes a result that a model can read."""
        try:
            complete = self._schema.check(arguments, tool=self.definition.name)
            # JSON Schema takes 5.0 for an integer; Python does not.
            numbers = {key: int(complete[key]) for key in self._whole if key in complete}
            return await self._run(caller, {**complete, **numbers})
        except ToolNotFoundError as error:
            return error_result(_not_found(error, caller.client.principal))
        except PegboardError as error:
            return failure_of(error, caller.client.principal, tool=self.definition)


def respond(text: str, structured: object = None) -> dict[str, Any]:
    """Return a raw result with a text, and with structured content if there is any."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if structured is not None:
        result["structuredContent"] = structured
    return result


def _not_found(error: ToolNotFoundError, principal: Principal) -> str:
    if error.name in OWN_NAMES:
        return f"{error.name!r} is a tool of the gateway itself: call it directly."
    words = str(error)
    says_more = words != str(ToolNotFoundError(error.name))
    if says_more or not holds(principal, METHODS["search_tools"]):
        return words
    return f"{words} search_tools finds tools by what they do."
