"""BuiltinTool: a tool of the gateway itself, such as `search_tools`, and who calls it."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from pegboard.errors import InvalidArgumentsError, PegboardError, ToolNotFoundError
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
    "SKILL_TOOL",
    "STATS",
    "BuiltinTool",
    "CallerContext",
    "Run",
    "RunRefused",
    "respond",
]

CATEGORIES = "registry://categories"
STATS = "registry://stats"
OWN_RESOURCES = (CATEGORIES, STATS)


SKILL_TOOL = "get_skill"
"""The tool that is listed only where there are skills."""
OWN_NAMES = frozenset(
    {
        "search_tools",
        "get_tool_definition",
        SKILL_TOOL,
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

    def for_models(self) -> "CallerContext":
        """Return the same request, which sees only what a model may see."""
        return CallerContext(self.request, self.visibility.for_models())

    @property
    def owner(self) -> tuple[str, str]:
        """The tenant and the subject that own what the gateway keeps, such as cached results."""
        principal = self.request.client.principal
        return principal.tenant, principal.subject


Run = Callable[[CallerContext, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Returns the raw result of a call; the arguments are already validated and have their defaults."""


RunRefused = Callable[
    [CallerContext, dict[str, Any], InvalidArgumentsError], Awaitable[dict[str, Any]]
]
"""Returns the raw result of a call whose arguments were refused, or raises the error."""


class BuiltinTool:
    """A definition, and the function that runs it.

    Args:
        definition: the definition.
        run: runs it with valid arguments.
        run_refused: may understand arguments that the schema refuses.
    """

    def __init__(
        self, definition: Tool, run: Run, *, run_refused: RunRefused | None = None
    ) -> None:
        self.definition = definition
        self._schema = ArgumentSchema(definition.input_schema, tool=definition.name)
        properties: dict[str, Any] = definition.input_schema.get("properties", {})
        self._whole = [key for key, it in properties.items() if it.get("type") == "integer"]
        self._run = run
        self._run_refused = run_refused

    async def call(self, caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the raw result; a failure becomes a result that a model can read."""
        try:
            try:
                complete = self._schema.check(arguments, tool=self.definition.name)
            except InvalidArgumentsError as error:
                if self._run_refused is None:
                    raise
                return await self._run_refused(caller, arguments, error)
            # JSON Schema takes 5.0 for an integer; Python does not.
            numbers = {key: int(complete[key]) for key in self._whole if key in complete}
            return await self._run(caller, {**complete, **numbers})
        except ToolNotFoundError as error:
            result = error_result(_not_found(error, caller.client.principal))
            if error.unavailable:
                typed = {"code": error.code, "unavailable": list(error.unavailable)}
                result["structuredContent"] = typed
            return result
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
