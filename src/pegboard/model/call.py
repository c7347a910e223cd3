"""The one shape of a call: a Step takes a ToolCall and gives the tool's own value."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from pegboard.model.json_values import FrozenDict
from pegboard.model.tool import Tool

__all__ = ["NO_META", "Step", "Tally", "ToolCall"]

NO_META: Mapping[str, Any] = FrozenDict()


class Tally(msgspec.Struct):
    """Counts how often the tool was started during one call; the only part of it that changes."""

    attempts: int = 0


class ToolCall(msgspec.Struct, frozen=True):
    """One call of one tool. A function tool that has a parameter of this type receives it."""

    tool: Tool
    arguments: dict[str, Any]
    meta: Mapping[str, Any] = NO_META
    """What the caller attached: a trace id, a user, a conversation; recorded, never validated."""
    inline: bool = False
    """True when the tool may run in the caller's own thread, because that thread waits for it."""
    tally: Tally | None = None
    """Present when the tool may be started more or less than once: under retry, in a queue."""

    def started(self) -> None:
        """Count that the tool's own code begins now."""
        if self.tally is not None:
            self.tally.attempts += 1


Step = Callable[[ToolCall], Awaitable[object]]
"""One stage of a call. Policies wrap one Step into another; the tool itself is the innermost."""
