"""Access: which tools may be seen and called; the only place that decides."""

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
"""Each action, and the scopes of which one is enough for it: what may be called may be found."""

METHODS: Mapping[str, Scope] = MappingProxyType(
    {
        "tools/list": "read",
        "prompts/list": "read",
        "resources/list": "read",
        "resources/templates/list": "read",
        "subscriptions/listen": "read",
        # From here on a server is asked, with the credentials of the operator.
        "tools/call": "call",
        "prompts/get": "call",
        "resources/read": "call",
        "resources/subscribe": "call",
        "resources/unsubscribe": "call",
        "completion/complete": "call",
        # The tools of the gateway itself.
        "search_tools": "read",
        "get_tool_definition": "read",
        "list_tools_by_category": "read",
        "call_tool": "call",
        "read_result": "call",
        "register_tool": "register",
        "unregister_tool": "register",
    }
)
"""What each method, and each tool of the gateway itself, does; what is not here needs nothing."""


def holds(principal: Principal, action: Scope) -> bool:
    """Tell whether somebody may do this at all, to whatever their patterns admit."""
    if principal.expires is not None and time.time() >= principal.expires:
        return False
    return not principal.scopes.isdisjoint(IMPLIED[action])


def may(principal: Principal, action: Scope, tool: Tool) -> bool:
    """Tell whether somebody may do this to a tool."""
    return may_use_server(principal, action, tool.server, name=tool.name)


def may_use_server(
    principal: Principal, action: Scope, server: str | None, *, name: str = ""
) -> bool:
    """Tell whether somebody may do this to what a server offers: a tool, a prompt, a resource.

    Args:
        principal: who asks.
        action: what for.
        server: its name; ``None`` for what belongs to none.
        name: what the thing is called here (the URI, of a resource). The patterns for tools count
            for it as well: whoever is limited to some tools reaches nothing else of their servers.
    """
    return holds(principal, action) and _matches(principal.servers, principal.tools)(server, name)


def may_operate(principal: Principal) -> bool:
    """Tell whether somebody may look after the whole process, for all tenants: its metrics, say."""
    everything = "*" in principal.servers and "*" in principal.tools
    return everything and principal.tenant == DEFAULT_TENANT and holds(principal, "admin")


def visible_to(principal: Principal, action: Scope = "read") -> Callable[[Tool], bool] | None:
    """Return what tells which tools somebody may find; ``None`` when that is all of them.

    Made for one request, over thousands of tools: the scope is looked at here, once.
    """
    if not holds(principal, action):
        return _none
    if "*" in principal.servers and "*" in principal.tools:
        return None
    matches = _matches(principal.servers, principal.tools)
    return lambda tool: matches(tool.server, tool.name)


class Access:
    """Allow and deny lists of glob patterns over tool names (``files_*``); deny wins.

    Without an allow list everything is allowed that is not denied. An empty allow list allows
    nothing.
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
