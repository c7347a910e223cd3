"""Visibility: what one client may see and call, by its credential and by the address it came to."""

from collections.abc import Callable

import msgspec

from pegboard.errors import AccessDeniedError
from pegboard.model import Principal, Scope, Tool
from pegboard.policies import holds, may, may_use_server, visible_to

__all__ = ["Admits", "Visibility"]

Admits = Callable[[str | None, str | None, tuple[str, ...]], bool]
"""Tells by server, name (``None``: any) and tags whether something belongs to a group."""


class Visibility:
    """The part of a catalogue that exists for one client.

    Args:
        principal: who asks.
        admits: what belongs to the address it came to; ``None`` for everything.
        action: what for; a tool that this may not be done to does not exist.
    """

    def __init__(
        self, principal: Principal, admits: Admits | None = None, *, action: Scope = "read"
    ) -> None:
        self.principal: Principal = principal
        self._admits = admits
        self.visible: Callable[[Tool], bool] | None = self._visible(action)
        """Tells which tools exist; ``None`` when all do."""

    def to(self, action: Scope) -> "Visibility":
        """Return what exists for this client when something else is to be done with it."""
        return Visibility(self.principal, self._admits, action=action)

    @property
    def reads(self) -> bool:
        """True when anything at all may be found."""
        return holds(self.principal, "read")

    def sees(self, tool: Tool) -> bool:
        """Tell whether a tool exists for this client."""
        return self.visible is None or self.visible(tool)

    def sees_of(self, server: str, name: str, tags: tuple[str, ...] = ()) -> bool:
        """Tell whether a prompt or resource of a server exists for this client."""
        if self._admits is not None and not self._admits(server, name, tags):
            return False
        return may_use_server(self.principal, "read", server, name=name)

    def sees_server(self, server: str, tags: tuple[str, ...] = ()) -> bool:
        """Tell whether anything of a server may exist for this client."""
        if self._admits is not None and not self._admits(server, None, tags):
            return False
        anything = msgspec.structs.replace(self.principal, tools=("*",))
        return may_use_server(anything, "read", server)

    def knows_server(self, server: str, tags: tuple[str, ...] = ()) -> bool:
        """Tell whether a client may know that there is such a server, whatever it offers.

        One that is limited to some tools, of any server, may know those servers only that have
        such tools; this cannot be told here.
        """
        if self._admits is not None and not self._admits(server, None, tags):
            return False
        principal = self.principal
        if "*" in principal.servers and "*" not in principal.tools:
            return False
        anything = msgspec.structs.replace(principal, tools=("*",))
        return any(may_use_server(anything, it, server) for it in ("read", "register"))

    def check_call(self, tool: Tool) -> None:
        """Refuse to call a tool that may only be looked at.

        Raises:
            AccessDeniedError: when it may not be called.
        """
        if not may(self.principal, "call", tool):
            raise _denied(tool.name)

    def check_use(self, server: str, name: str) -> None:
        """Refuse to use what a server offers, when it may only be looked at.

        Raises:
            AccessDeniedError: when it may not be used.
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
        f"{name!r} may be looked at but not called with this credential: it lacks the scope "
        "`call`.",
        tool=name,
    )
