"""Access: which tools may be seen and called; the only place that decides."""

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import ClassVar, Never

from pegboard.errors import AccessDeniedError
from pegboard.model import Step, Tool, ToolCall
from pegboard.policies.policy import Target

__all__ = ["Access"]


class Access:
    """Allow and deny lists of glob patterns over tool names (``files_*``); deny wins.

    Without an allow list everything is allowed that is not denied. An empty allow list allows
    nothing.
    """

    needs_loop: ClassVar[bool] = False

    def __init__(self, *, allow: Iterable[str] | None = None, deny: Iterable[str] = ()) -> None:
        self.allow: tuple[str, ...] | None = None if allow is None else _patterns("allow", allow)
        self.deny: tuple[str, ...] = _patterns("deny", deny)
        self._allowed = None if self.allow is None else _matcher(self.allow)
        self._denied = _matcher(self.deny)

    def __repr__(self) -> str:
        return f"Access(allow={self.allow!r}, deny={self.deny!r})"

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


def _patterns(name: str, patterns: Iterable[str]) -> tuple[str, ...]:
    if isinstance(patterns, str):
        # A bare string would be read as a list of one-letter patterns.
        raise TypeError(f"`{name}` takes a list of patterns: [{patterns!r}].")
    return tuple(patterns)


def _matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    # An empty alternation would match every name; a class without members matches none.
    either = "|".join(fnmatch.translate(pattern) for pattern in patterns) or r"[^\s\S]"
    pattern = re.compile(either)
    return lambda name: pattern.match(name) is not None
