"""Access control: which tools a principal may see and call, and the allow and deny lists."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar, Never

from pegboard.errors import AccessDeniedError
from pegboard.model import Step, Tool, ToolCall
from pegboard.model.principal import DEFAULT_TENANT, Principal, Scope
from pegboard.model.tool_names import name_matcher
from pegboard.policies.policy import Target

__all__ = [
    "IMPLIED",
    "METHODS",
    "Access",
    "holds",
    "may",
    "may_operate",
    "may_use_server",
    "visible_to",
]

IMPLIED: Mapping[Scope, frozenset[Scope]] = MappingProxyType(
    {
        "read": frozenset({"read", "call", "admin"}),
        "call": frozenset({"call", "admin"}),
        "register": frozenset({"register", "admin"}),
        "admin": frozenset({"admin"}),
    }
)
"""For each action the scopes that grant it; ``call`` also grants ``read``."""

METHODS: Mapping[str, Scope] = MappingProxyType(
    {
        "tools/list": "read",
        "prompts/list": "read",
        "resources/list": "read",
        "resources/templates/list": "read",
        "skills/list": "read",
        "skills/get": "read",
        "subscriptions/listen": "read",
        # The methods from here on reach a server, with the credentials of the operator.
        "tools/call": "call",
        "prompts/get": "call",
        "resources/read": "call",
        "resources/directory/read": "call",
        "resources/subscribe": "call",
        "resources/unsubscribe": "call",
        "completion/complete": "call",
        # Tasks are calls of the caller itself.
        "tasks/get": "call",
        "tasks/list": "call",
        "tasks/result": "call",
        "tasks/update": "call",
        "tasks/cancel": "call",
        # The tools of the gateway itself.
        "search_tools": "read",
        "get_tool_definition": "read",
        "list_tools_by_category": "read",
        "get_skill": "call",
        "call_tool": "call",
        "read_result": "call",
        "register_tool": "register",
        "unregister_tool": "register",
    }
)
"""The action of each method and each tool of the gateway; one that is not here needs no scope."""


def holds(principal: Principal, action: Scope) -> bool:
    """Tell whether a principal may do this at all, to any server or tool."""
    if principal.expires is not None and time.time() >= principal.expires:
        return False
    return action not in principal.withheld and not principal.scopes.isdisjoint(IMPLIED[action])


def may(principal: Principal, action: Scope, tool: Tool) -> bool:
    """Tell whether a principal may do this to a tool."""
    return may_use_server(principal, action, tool.server, name=tool.name)


def may_use_server(
    principal: Principal, action: Scope, server: str | None, *, name: str = ""
) -> bool:
    """Tell whether a principal may do this to what a server offers: a tool, a prompt, a resource.

    Args:
        principal: the caller.
        action: what the caller wants to do.
        server: the name of the server; ``None`` for what belongs to no server.
        name: the name that is shown here, or the URI of a resource. The patterns for tools apply to
            it as well: a principal with some tools of a server reaches nothing else of it.
    """
    return holds(principal, action) and _matches(principal.servers, principal.tools)(server, name)


def may_operate(principal: Principal) -> bool:
    """Tell whether a principal may operate the whole process, for all tenants, as metrics need."""
    everything = "*" in principal.servers and "*" in principal.tools
    return everything and principal.tenant == DEFAULT_TENANT and holds(principal, "admin")


def visible_to(principal: Principal, action: Scope = "read") -> Callable[[Tool], bool] | None:
    """Return a function that tells whether a principal may find a tool; ``None`` for all tools.

    A request makes it once for thousands of tools, so the scope is checked here, once.
    """
    if not holds(principal, action):
        return _none
    if "*" in principal.servers and "*" in principal.tools:
        return None
    matches = _matches(principal.servers, principal.tools)
    return lambda tool: matches(tool.server, tool.name)


class Access:
    """Allow and deny lists of glob patterns of tool names (``files_*``); the deny list wins.

    Without an allow list every tool is allowed that is not denied. An empty allow list allows no
    tool.
    """

    needs_loop: ClassVar[bool] = False

    def __init__(self, *, allow: Iterable[str] | None = None, deny: Iterable[str] = ()) -> None:
        self._denied = name_matcher("deny", deny)
        self._allowed = None if allow is None else name_matcher("allow", allow)
        self._shown = f"Access(allow={allow!r}, deny={deny!r})"

    def __repr__(self) -> str:
        return self._shown

    def permits(self, tool: Tool) -> bool:
        """Tell whether the tool may be seen and called."""
        if self._denied(tool.name):
            return False
        return self._allowed is None or self._allowed(tool.name)

    def wrap(self, step: Step, target: Target) -> Step:
        """Refuse every call of a tool that is not permitted."""
        if self.permits(target.tool):
            return step

        async def denied(call: ToolCall) -> Never:
            raise AccessDeniedError(
                f"Tool {call.tool.name!r} may not be called: the access lists do not permit it.",
                tool=call.tool.name,
            )

        return denied


@lru_cache(maxsize=1024)
def _matches(servers: tuple[str, ...], tools: tuple[str, ...]) -> Callable[[str | None, str], bool]:
    any_server, any_tool = "*" in servers, "*" in tools
    of_server, of_tool = name_matcher("servers", servers), name_matcher("tools", tools)

    def matches(server: str | None, name: str) -> bool:
        return (any_server or of_server(server or "")) and (any_tool or of_tool(name))

    return matches


def _none(_: Tool) -> bool:
    return False
