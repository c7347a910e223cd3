"""Visibility: the tools that one client may see and call, by its credential and its address."""

from collections.abc import Callable

import msgspec

from pegboard.errors import AccessDeniedError
from pegboard.model import Principal, Scope, Tool
from pegboard.policies import holds, may, may_use_server, visible_to

__all__ = ["Admits", "Part", "Visibility"]

Admits = Callable[[str | None, str | None, tuple[str, ...]], bool]
"""Tells by server, name (``None`` for any) and tags whether something belongs to a group."""
Part = tuple[Principal, Admits | None]
"""What decides which prompts and resources a client may see."""


class Visibility:
    """The part of a catalogue that exists for one client.

    Args:
        principal: the identity of the client.
        admits: tells what belongs to the address of the client; ``None`` for everything.
        action: the scope that counts; a tool is hidden if the client lacks this scope for it.
        apps: whether the client shows apps, and so sees the tools that only they call.
    """

    def __init__(
        self,
        principal: Principal,
        admits: Admits | None = None,
        *,
        action: Scope = "read",
        apps: bool = False,
    ) -> None:
        self.principal: Principal = principal
        self.apps: bool = apps
        self._admits = admits
        self._action: Scope = action
        self.visible: Callable[[Tool], bool] | None = self._visible(action)
        """Tells whether the client may see a tool that is not only for apps; ``None`` for all."""

    def to(self, action: Scope) -> "Visibility":
        """Return the visibility of this client for another scope."""
        return Visibility(self.principal, self._admits, action=action, apps=self.apps)

    def for_models(self) -> "Visibility":
        """Return what a model of this client may see: no tools that only apps call."""
        return Visibility(self.principal, self._admits, action=self._action)

    @property
    def part(self) -> Part:
        """What decides which prompts and resources the client may see."""
        return self.principal, self._admits

    @property
    def reads(self) -> bool:
        """True when the client has the scope ``read``."""
        return holds(self.principal, "read")

    def sees(self, tool: Tool) -> bool:
        """Tell whether the client may see a tool."""
        if tool.app_only and not self.apps:
            return False
        return self.visible is None or self.visible(tool)

    def sees_of(self, server: str | None, name: str, tags: tuple[str, ...] = ()) -> bool:
        """Tell whether the client may see a prompt, resource or skill of a server."""
        if self._admits is not None and not self._admits(server, name, tags):
            return False
        return may_use_server(self.principal, "read", server, name=name)

    def sees_server(self, server: str, tags: tuple[str, ...] = ()) -> bool:
        """Tell whether the client may see anything of a server."""
        if self._admits is not None and not self._admits(server, None, tags):
            return False
        anything = msgspec.structs.replace(self.principal, tools=("*",))
        return may_use_server(anything, "read", server)

    def knows_server(self, server: str, tags: tuple[str, ...] = ()) -> bool:
        """Tell whether the client may know that a server exists, whatever it offers.

        A client that is limited to some tools of any server may know only the servers with such
        tools. This method does not know the tools, so it returns false for such a client.
        """
        if self._admits is not None and not self._admits(server, None, tags):
            return False
        principal = self.principal
        if "*" in principal.servers and "*" not in principal.tools:
            return False
        anything = msgspec.structs.replace(principal, tools=("*",))
        return any(may_use_server(anything, it, server) for it in ("read", "register"))

    def check_call(self, tool: Tool) -> None:
        """Refuse to call a tool that the client may only see.

        Raises:
            AccessDeniedError: when the client may not call it.
        """
        if not may(self.principal, "call", tool):
            raise _denied(tool.name)

    def check_use(self, server: str | None, name: str) -> None:
        """Refuse to use a prompt or resource that the client may only see.

        Raises:
            AccessDeniedError: when the client may not use it.
        """
        if not may_use_server(self.principal, "call", server, name=name):
            raise _denied(name)

    def _visible(self, action: Scope) -> Callable[[Tool], bool] | None:
        permitted = visible_to(self.principal, action)
        admits = self._admits
        if admits is None:
            return permitted

        def visible(tool: Tool) -> bool:
            belongs = admits(tool.server, tool.name, tool.tags)
            return belongs and (permitted is None or permitted(tool))

        return visible


def _denied(name: str) -> AccessDeniedError:
    return AccessDeniedError(
        f"This credential may see {name!r} but not call it: it lacks the scope `call`.",
        tool=name,
    )
