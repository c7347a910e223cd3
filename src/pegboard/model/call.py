"""ToolCall, CallRecord and Usage: one call, the record of a call, and how often a tool is used."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from pegboard.errors import Outcome
from pegboard.model.json_values import FrozenDict
from pegboard.model.tool import Tool

__all__ = [
    "NO_META",
    "CallRecord",
    "HoldingRecord",
    "Phases",
    "Step",
    "Tally",
    "Temperature",
    "ToolCall",
    "Usage",
]

NO_META: Mapping[str, Any] = FrozenDict()
HOT_USES = 10
WARM_USES = 3
WARM_AFTER = timedelta(days=30)
COLD_AFTER = timedelta(days=60)


class Tally(msgspec.Struct):
    """Counts how often the tool was started in one call; the only part of a call that changes."""

    attempts: int = 0


class Phases(msgspec.Struct, omit_defaults=True, gc=False):
    """The seconds that a call spent in each phase; what is left of its duration is our own work.

    Pass one to `Registry.acall`, and each phase is added where it happens.
    """

    queued: float = 0.0
    """Waiting for a free slot of a concurrency limit."""
    connecting: float = 0.0
    """Waiting for a server to start or to connect."""
    at_server: float = 0.0
    """From sending the request to its response, in all attempts."""
    waiting: float = 0.0
    """Waiting for a person who answers a question of the server."""
    caching: float = 0.0
    """Cutting a long result, and keeping the rest of it."""


class ToolCall(msgspec.Struct, frozen=True):
    """One call of one tool. A function with a parameter of this type receives it."""

    tool: Tool
    arguments: dict[str, Any]
    meta: Mapping[str, Any] = NO_META
    """What the caller attached, such as a trace id or a user: recorded, but never validated."""
    inline: bool = False
    """True when the tool may run in the caller's thread, because that thread waits for it."""
    tally: Tally | None = None
    """Present when the tool may be started more or less than once: under retry, or in a queue."""

    phases: Phases | None = None
    """Where the phases of the call are added; ``None`` if they are not measured."""

    def started(self) -> None:
        """Count one start of the tool's own code."""
        if self.tally is not None:
            self.tally.attempts += 1


Step = Callable[[ToolCall], Awaitable[object]]
"""One stage of a call. Policies wrap one Step into another; the tool itself is the innermost."""


class Temperature(StrEnum):
    """How likely a tool is to be called next."""

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """How often a tool was called, and when last."""

    use_frequency: int = 0
    last_used: datetime | None = None

    def temperature(self, *, now: datetime | None = None) -> Temperature:
        """Return hot, warm or cold; a tool cools down while it is not called."""
        idle = timedelta()
        if self.last_used is not None:
            idle = (now or datetime.now(UTC)) - self.last_used
        if self.use_frequency < WARM_USES or idle >= COLD_AFTER:
            return Temperature.COLD
        if self.use_frequency < HOT_USES or idle >= WARM_AFTER:
            return Temperature.WARM
        return Temperature.HOT


class CallRecord(msgspec.Struct, frozen=True, omit_defaults=True, eq=False, gc=False):
    """One finished call. Arguments and result are absent unless telemetry was told to keep them."""

    tool: str
    started: float
    """Seconds since the epoch."""
    duration: float
    """Seconds, by the monotonic clock, all retries and waiting included."""
    outcome: Outcome
    """``ok``, ``tool_error`` (the result says so), ``raised``, ``refused``, ``timeout`` or
    ``cancelled``."""
    error_code: str | None = None
    """Pegboard's code of the error, or the class name of the tool's own exception."""
    attempts: int = 0
    """How often the tool was started."""
    arguments_size: int | None = None
    """Bytes of the arguments as JSON; ``None`` if they cannot be JSON."""
    result_size: int | None = None
    """Bytes of the result as JSON, of a server's result as it was received; ``None`` if there is no
    result, or it cannot be JSON."""
    cost: float | None = None
    """The number the tool reported under ``meta.cost``, if any."""
    server: str | None = None
    meta: Mapping[str, Any] = NO_META
    """What the caller attached to the call."""
    arguments: Mapping[str, Any] | None = None
    result: Any = None
    phases: Phases | None = None
    """The phases of the call, if they were measured."""

    def __eq__(self, other: object) -> bool:
        """Compare by content, whether or not the garbage collector knows the record."""
        if not isinstance(other, CallRecord):
            return NotImplemented
        return msgspec.structs.astuple(self) == msgspec.structs.astuple(other)

    def __hash__(self) -> int:
        return hash((self.tool, self.started, self.duration))


class HoldingRecord(CallRecord, frozen=True, eq=False, gc=True):
    """A record with values of the caller or the tool in it.

    Such a value may refer back to the object that keeps the record, so the garbage collector has to
    know the record. Plain records hold only numbers and text, and are cheaper without that.
    """
