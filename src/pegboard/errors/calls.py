"""Errors of tools and calls: not found, invalid arguments, access denied, queue full, timeout."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from pegboard.errors.root import LISTED, Outcome, PegboardError, shorten

__all__ = [
    "AccessDeniedError",
    "CallRefusedError",
    "InvalidArgumentsError",
    "InvalidPlanError",
    "InvalidToolError",
    "NotImplementedToolError",
    "QueueFullError",
    "ToolConflictError",
    "ToolDisabledError",
    "ToolExecutionError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "Violation",
    "WouldDeadlockError",
]


class InvalidToolError(PegboardError, TypeError):
    """The object given to ``register`` is not a tool, or its definition is invalid."""

    code: ClassVar[str] = "invalid_tool"


class ToolConflictError(PegboardError, ValueError):
    """A tool with that name is already registered."""

    code: ClassVar[str] = "tool_conflict"

    def __init__(
        self,
        name: str,
        *,
        remedy: str = "Pass `on_conflict` as 'override', 'skip' or 'rename', or unregister the "
        "other tool first.",
    ) -> None:
        super().__init__(f"A tool named {name!r} is already registered. {remedy}")
        self.name = name


class ToolNotFoundError(PegboardError, KeyError, ValueError):
    """No tool has that name; ``nearest`` holds similar names.

    ``unavailable`` tells of the servers that may have the tool, and of their states; the gateway
    fills it in.
    """

    code: ClassVar[str] = "not_found"

    def __init__(self, name: object, *, nearest: Sequence[str] = ()) -> None:
        hint = ""
        if nearest:
            hint = " Did you mean " + " or ".join(repr(other) for other in nearest) + "?"
        super().__init__(f"No tool is named {shorten(name)}.{hint}")
        self.name = name
        self.tool: str = str(name)
        self.nearest: tuple[str, ...] = tuple(nearest)
        self.unavailable: tuple[Mapping[str, str], ...] = ()


class InvalidPlanError(PegboardError, ValueError):
    """A step of a plan is malformed; ``index`` is its position in the plan."""

    code: ClassVar[str] = "invalid_plan"

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(f"Step {index} of the plan {problem}")
        self.index = index


class CallRefusedError(PegboardError):
    """The call was refused before the tool was started; ``tool`` is the tool's name."""

    def __init__(self, message: str, *, tool: str) -> None:
        super().__init__(message)
        self.tool: str = tool


class AccessDeniedError(CallRefusedError, PermissionError):
    """An access list forbids this tool."""

    code: ClassVar[str] = "access_denied"


class ToolDisabledError(CallRefusedError, RuntimeError):
    """The tool belongs to a group that is switched off."""

    code: ClassVar[str] = "disabled"

    def __init__(self, tool: str, *, groups: Sequence[str]) -> None:
        names = ", ".join(repr(group) for group in groups)
        super().__init__(
            f"Tool {tool!r} is disabled because its group {names} is switched off. "
            "Switch the group on with `enable_group`.",
            tool=tool,
        )
        self.groups: tuple[str, ...] = tuple(groups)


class NotImplementedToolError(CallRefusedError, RuntimeError):
    """Only the definition of the tool is registered, without an implementation."""

    code: ClassVar[str] = "no_implementation"

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"Tool {tool!r} is registered as a definition only, so it can be described but not "
            "called. Register a function or an object with a `call` method under this name.",
            tool=tool,
        )


class Violation(NamedTuple):
    """One way in which arguments break a schema."""

    path: str
    """Where, from the root of the arguments: ``items[2].price``; empty for the root itself."""
    message: str
    """What is wrong, in words a model can act on."""

    def __str__(self) -> str:
        return f"`{self.path}`: {self.message}" if self.path else self.message


class InvalidArgumentsError(CallRefusedError, ValueError):
    """The arguments break the tool's input schema; ``violations`` lists every problem."""

    code: ClassVar[str] = "invalid_arguments"

    def __init__(self, tool: str, violations: Sequence[Violation]) -> None:
        listed = "; ".join(str(violation) for violation in violations[:LISTED])
        super().__init__(f"Invalid arguments for tool {tool!r}: {listed}", tool=tool)
        self.violations: tuple[Violation, ...] = tuple(violations)


class QueueFullError(CallRefusedError, RuntimeError):
    """The tool or the registry already runs and queues as many calls as it allows."""

    code: ClassVar[str] = "queue_full"
    transient: ClassVar[bool] = True

    def __init__(self, tool: str, *, limit: int, queue: int) -> None:
        super().__init__(
            f"Tool {tool!r} was not started: it already runs ({limit}) and queues ({queue}) as "
            "many calls as it may. Try again later.",
            tool=tool,
        )
        self.limit = limit
        self.queue = queue


class WouldDeadlockError(CallRefusedError, RuntimeError):
    """A blocking call was made on the event loop that has to run the call."""

    code: ClassVar[str] = "would_deadlock"

    def __init__(self, tool: str) -> None:
        what = f"Tool {tool!r} was not called" if tool else "This was not done"
        super().__init__(
            f"{what}: waiting for it here would block the event loop that has to run it. Await the "
            "asynchronous form: `registry.acall`, `hub.call` or `tools.call`.",
            tool=tool,
        )


class ToolTimeoutError(PegboardError, TimeoutError):
    """The tool did not finish before its deadline; ``sent`` says whether it was started."""

    code: ClassVar[str] = "timeout"
    outcome: ClassVar[Outcome] = "timeout"

    def __init__(
        self,
        tool: str,
        *,
        seconds: float,
        sent: bool = True,
        remedy: str = "raise its `Deadline`",
    ) -> None:
        super().__init__(
            f"Tool {tool!r} did not finish within {seconds:g} s. It may have had effects; "
            f"{remedy} if it needs longer."
            if sent
            else f"Tool {tool!r} was not started: it waited {seconds:g} s in the queue. Raise the "
            "limit of its `Concurrency`, or its `Deadline`."
        )
        self.tool: str = tool
        self.seconds = seconds
        self.sent: bool = sent


class ToolExecutionError(PegboardError, RuntimeError):
    """The tool ran and reported its own failure (a result with ``is_error``)."""

    code: ClassVar[str] = "tool_error"
    outcome: ClassVar[Outcome] = "tool_error"
    sent: bool = True

    def __init__(self, message: str, *, result: object = None) -> None:
        super().__init__(message)
        self.result = result
        """The `ToolResult` that says so."""
