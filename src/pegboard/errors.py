"""The whole error tree of Pegboard.

    PegboardError
    ├── InvalidToolError         TypeError       what was registered is not a tool
    ├── ToolConflictError        ValueError      the name is taken
    ├── ToolNotFoundError        KeyError, ValueError
    ├── InvalidPlanError         ValueError      a plan step is malformed
    ├── CallRefusedError                         the call never reached the tool
    │   ├── AccessDeniedError    PermissionError an access list forbids it
    │   ├── ToolDisabledError    RuntimeError    one of its groups is switched off
    │   ├── NotImplementedToolError RuntimeError only a definition is registered
    │   ├── InvalidArgumentsError ValueError     the arguments break the input schema
    │   ├── QueueFullError       RuntimeError    too many calls run and wait already
    │   └── WouldDeadlockError   RuntimeError    a blocking call on the loop that must do the work
    ├── ToolTimeoutError         TimeoutError    the deadline passed
    └── ToolExecutionError       RuntimeError    the tool reported its own failure

A tool's own exception is never wrapped: it reaches the caller as it was raised.
Each class has a ``code`` for records and protocols. ``sent`` says whether the tool may have been
started, so that a caller knows whether repeating the call is safe.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

__all__ = [
    "AccessDeniedError",
    "CallRefusedError",
    "InvalidArgumentsError",
    "InvalidPlanError",
    "InvalidToolError",
    "NotImplementedToolError",
    "PegboardError",
    "QueueFullError",
    "ToolConflictError",
    "ToolDisabledError",
    "ToolExecutionError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "Violation",
    "WouldDeadlockError",
]

Outcome = Literal["ok", "tool_error", "raised", "refused", "timeout", "cancelled"]


class Violation(NamedTuple):
    """One way in which arguments break a schema."""

    path: str
    """Where, from the root of the arguments: ``items[2].price``; empty for the root itself."""
    message: str
    """What is wrong, in words a model can act on."""

    def __str__(self) -> str:
        return f"`{self.path}`: {self.message}" if self.path else self.message


class PegboardError(Exception):
    """Every error Pegboard raises by itself."""

    code: ClassVar[str] = "error"
    outcome: ClassVar[Outcome] = "refused"
    sent: bool = False

    def __str__(self) -> str:
        # KeyError would show the repr of the message.
        return str(self.args[0]) if self.args else type(self).__name__


class InvalidToolError(PegboardError, TypeError):
    """What was given to ``register`` is not a tool, or its definition is broken."""

    code = "invalid_tool"


class ToolConflictError(PegboardError, ValueError):
    """A tool of that name is registered already."""

    code = "tool_conflict"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"A tool named {name!r} is registered already. Pass `on_conflict` as 'override', "
            "'skip' or 'rename', or unregister the other one first."
        )
        self.name = name


class ToolNotFoundError(PegboardError, KeyError, ValueError):
    """No tool has that name; ``nearest`` holds names that look like it."""

    code = "not_found"

    def __init__(self, name: object, *, nearest: Sequence[str] = ()) -> None:
        hint = ""
        if nearest:
            hint = " Did you mean " + " or ".join(repr(other) for other in nearest) + "?"
        super().__init__(f"No tool is named {_shorten(name)}.{hint}")
        self.name = name
        self.nearest = tuple(nearest)


class InvalidPlanError(PegboardError, ValueError):
    """A step of a plan cannot be run as it is; ``index`` tells which."""

    code = "invalid_plan"

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(f"Step {index} of the plan {problem}")
        self.index = index


class CallRefusedError(PegboardError):
    """The call was turned down before the tool was started; ``tool`` is its name."""

    def __init__(self, message: str, *, tool: str) -> None:
        super().__init__(message)
        self.tool = tool


class AccessDeniedError(CallRefusedError, PermissionError):
    """An access list forbids this tool."""

    code = "access_denied"


class ToolDisabledError(CallRefusedError, RuntimeError):
    """The tool belongs to a group that is switched off."""

    code = "disabled"

    def __init__(self, tool: str, *, groups: Sequence[str]) -> None:
        names = ", ".join(repr(group) for group in groups)
        super().__init__(
            f"Tool {tool!r} is switched off with its group {names}. "
            "Switch it on with `enable_group`.",
            tool=tool,
        )
        self.groups = tuple(groups)


class NotImplementedToolError(CallRefusedError, RuntimeError):
    """Only the definition of the tool is registered, nothing that could run it."""

    code = "no_implementation"

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"Tool {tool!r} is registered as a definition only, so it can be described but not "
            "called. Register a function or an object with a `call` method under this name.",
            tool=tool,
        )


class InvalidArgumentsError(CallRefusedError, ValueError):
    """The arguments break the tool's input schema; ``violations`` lists every way."""

    code = "invalid_arguments"

    def __init__(self, tool: str, violations: Sequence[Violation]) -> None:
        listed = "; ".join(str(violation) for violation in violations)
        super().__init__(f"Invalid arguments for tool {tool!r}: {listed}", tool=tool)
        self.violations = tuple(violations)


class QueueFullError(CallRefusedError, RuntimeError):
    """As many calls run and wait as the tool or registry allows."""

    code = "queue_full"

    def __init__(self, tool: str, *, limit: int, queue: int) -> None:
        super().__init__(
            f"Tool {tool!r} was not started: {limit} calls run and {queue} wait already, "
            "which is the limit. Try again later.",
            tool=tool,
        )
        self.limit = limit
        self.queue = queue


class WouldDeadlockError(CallRefusedError, RuntimeError):
    """A blocking call was made from the very event loop that would have to do its work."""

    code = "would_deadlock"

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"Tool {tool!r} was not called: `call` would block the event loop that has to run it. "
            "Use `await registry.acall(...)` here.",
            tool=tool,
        )


class ToolTimeoutError(PegboardError, TimeoutError):
    """The tool did not finish before its deadline; it may have had effects (``sent``)."""

    code = "timeout"
    outcome = "timeout"
    sent = True

    def __init__(self, tool: str, *, seconds: float) -> None:
        super().__init__(
            f"Tool {tool!r} did not finish within {seconds:g} s. It may have had effects; "
            "raise its `Deadline` if it needs longer."
        )
        self.tool = tool
        self.seconds = seconds


class ToolExecutionError(PegboardError, RuntimeError):
    """The tool ran and reported its own failure (a result with ``is_error``)."""

    code = "tool_error"
    outcome = "tool_error"
    sent = True


def _shorten(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
