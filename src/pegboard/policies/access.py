"""Access: which tools may be seen and called; the only place that decides."""

from collections.abc import Iterable
from typing import ClassVar, Never

from pegboard.errors import AccessDeniedError
from pegboard.model import Step, Tool, ToolCall
from pegboard.model.names import name_matcher
from pegboard.policies.policy import Target

__all__ = ["Access"]


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
