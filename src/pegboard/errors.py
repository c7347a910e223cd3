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
    ├── ToolExecutionError       RuntimeError    the tool reported its own failure
    ├── ConfigError              ValueError      a configuration file cannot be used
    ├── ServerNotFoundError      KeyError, ValueError
    ├── InvalidQueryError        ValueError      what is searched for cannot be searched for
    │   ├── InvalidPatternError                  the regular expression is none, or not a linear one
    │   └── SearcherNotFoundError KeyError       no search method has that name
    ├── SearchDataError          RuntimeError    the table of words is missing or damaged
    ├── StorageError                             what is to be kept was not kept, or cannot be read
    │   ├── StoreUnavailableError OSError        no disk space, no permission, no server
    │   ├── StoreDamagedError    ValueError      not what was written; it is left as it is
    │   ├── StoreVersionError                    written by a newer Pegboard; it is left as it is
    │   └── RevisionConflictError                somebody else wrote first
    └── UpstreamError                            a server could not do its part
        ├── ServerUnavailableError ConnectionError it cannot be started or reached; nothing was sent
        │   ├── ServerTimeoutError TimeoutError  it did not answer while connecting or listing
        │   ├── CircuitOpenError                 it failed too often and is left alone for a while
        │   └── AuthenticationError PermissionError it wants other credentials
        ├── NotConnectedError    RuntimeError    nobody connected, or somebody closed
        ├── ConnectionLostError  ConnectionError it went away in mid-call; the tool may have run
        └── ProtocolError        RuntimeError    it answered with an error, or with nonsense

A tool's own exception is never wrapped: it reaches the caller as it was raised.
Each class has a ``code`` for records and protocols. ``sent`` says whether the tool may have been
started, so that a caller knows whether repeating the call is safe.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

__all__ = [
    "AccessDeniedError", "AuthenticationError", "CallRefusedError", "CircuitOpenError",
    "ConfigError", "ConnectionLostError", "InvalidArgumentsError", "InvalidPatternError",
    "InvalidPlanError", "InvalidQueryError", "InvalidToolError", "NotConnectedError",
    "NotImplementedToolError", "Outcome", "PegboardError", "ProtocolError", "QueueFullError",
    "RevisionConflictError", "SearchDataError", "SearcherNotFoundError", "ServerNotFoundError",
    "ServerTimeoutError", "ServerUnavailableError", "StorageError", "StoreDamagedError",
    "StoreUnavailableError", "StoreVersionError", "ToolConflictError", "ToolDisabledError",
    "ToolExecutionError", "ToolNotFoundError", "ToolTimeoutError", "UpstreamError", "Violation",
    "WouldDeadlockError",
]  # fmt: skip

Outcome = Literal["ok", "tool_error", "raised", "refused", "timeout", "cancelled"]
"""How a call ended."""

_LISTED = 100


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
    transient: ClassVar[bool] = False
    """True when the same call may succeed a moment later, and certainly was not started."""
    sent: bool = False
    tool: str = ""
    """The tool it is about; a tool that calls tools may pass on errors about another one."""

    def __str__(self) -> str:
        # KeyError would show the repr of the message.
        return str(self.args[0]) if self.args else type(self).__name__

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by calling the class again: its parameters are not its `args`.
        return _restore, (type(self), self.args, self.__dict__)


class InvalidToolError(PegboardError, TypeError):
    """What was given to ``register`` is not a tool, or its definition is broken."""

    code: ClassVar[str] = "invalid_tool"


class ToolConflictError(PegboardError, ValueError):
    """A tool of that name is registered already."""

    code: ClassVar[str] = "tool_conflict"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"A tool named {name!r} is registered already. Pass `on_conflict` as 'override', "
            "'skip' or 'rename', or unregister the other one first."
        )
        self.name = name


class ToolNotFoundError(PegboardError, KeyError, ValueError):
    """No tool has that name; ``nearest`` holds names that look like it."""

    code: ClassVar[str] = "not_found"

    def __init__(self, name: object, *, nearest: Sequence[str] = ()) -> None:
        hint = ""
        if nearest:
            hint = " Did you mean " + " or ".join(repr(other) for other in nearest) + "?"
        super().__init__(f"No tool is named {_shorten(name)}.{hint}")
        self.name = name
        self.tool: str = str(name)
        self.nearest: tuple[str, ...] = tuple(nearest)


class InvalidPlanError(PegboardError, ValueError):
    """A step of a plan cannot be run as it is; ``index`` tells which."""

    code: ClassVar[str] = "invalid_plan"

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(f"Step {index} of the plan {problem}")
        self.index = index


class CallRefusedError(PegboardError):
    """The call was turned down before the tool was started; ``tool`` is its name."""

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
            f"Tool {tool!r} is switched off with its group {names}. "
            "Switch it on with `enable_group`.",
            tool=tool,
        )
        self.groups: tuple[str, ...] = tuple(groups)


class NotImplementedToolError(CallRefusedError, RuntimeError):
    """Only the definition of the tool is registered, nothing that could run it."""

    code: ClassVar[str] = "no_implementation"

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"Tool {tool!r} is registered as a definition only, so it can be described but not "
            "called. Register a function or an object with a `call` method under this name.",
            tool=tool,
        )


class InvalidArgumentsError(CallRefusedError, ValueError):
    """The arguments break the tool's input schema; ``violations`` lists every way."""

    code: ClassVar[str] = "invalid_arguments"

    def __init__(self, tool: str, violations: Sequence[Violation]) -> None:
        listed = "; ".join(str(violation) for violation in violations[:_LISTED])
        super().__init__(f"Invalid arguments for tool {tool!r}: {listed}", tool=tool)
        self.violations: tuple[Violation, ...] = tuple(violations)


class QueueFullError(CallRefusedError, RuntimeError):
    """As many calls run and wait as the tool or registry allows."""

    code: ClassVar[str] = "queue_full"
    transient: ClassVar[bool] = True

    def __init__(self, tool: str, *, limit: int, queue: int) -> None:
        super().__init__(
            f"Tool {tool!r} was not started: as many calls run ({limit}) and wait ({queue}) "
            "as may. Try again later.",
            tool=tool,
        )
        self.limit = limit
        self.queue = queue


class WouldDeadlockError(CallRefusedError, RuntimeError):
    """A blocking call was made from the very event loop that would have to do its work."""

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
            else f"Tool {tool!r} was not started: it waited {seconds:g} s for a place. Raise the "
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


class ConfigError(PegboardError, ValueError):
    """A configuration file, or one entry of it, cannot be used."""

    code: ClassVar[str] = "config"

    def __init__(
        self,
        problem: str,
        *,
        path: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        place = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{place}: {problem}" if place else problem)
        self.problem = problem
        self.path = path
        self.line = line
        self.column = column


class ServerNotFoundError(PegboardError, KeyError, ValueError):
    """No server has that name."""

    code: ClassVar[str] = "server_not_found"

    def __init__(self, name: object, *, known: Sequence[str] = ()) -> None:
        names = ", ".join(repr(other) for other in known[:_LISTED]) or "none"
        super().__init__(f"No server is named {_shorten(name)}; known: {names}.")
        self.name = name
        self.known: tuple[str, ...] = tuple(known)


class InvalidQueryError(PegboardError, ValueError):
    """A search cannot be made as it was asked for; ``option`` names what is wrong with it."""

    code: ClassVar[str] = "invalid_query"

    def __init__(self, message: str, *, option: str = "text") -> None:
        super().__init__(message)
        self.option = option


class InvalidPatternError(InvalidQueryError):
    """A regular expression cannot be used; ``position`` tells where, if that is known."""

    code: ClassVar[str] = "invalid_pattern"

    def __init__(self, pattern: str, problem: str, *, position: int | None = None) -> None:
        place = "" if position is None else f" at position {position}"
        super().__init__(f"The pattern {_shorten(pattern)} cannot be used: {problem}{place}.")
        self.pattern = pattern
        self.problem = problem
        self.position = position


class SearcherNotFoundError(InvalidQueryError, KeyError):
    """No search method has that name; ``known`` lists those that there are."""

    code: ClassVar[str] = "searcher_not_found"

    def __init__(self, name: object, *, known: Sequence[str] = ()) -> None:
        names = ", ".join(repr(other) for other in known[:_LISTED])
        super().__init__(f"No searcher is named {_shorten(name)}; known: {names}.", option="method")
        self.name = name
        self.known: tuple[str, ...] = tuple(known)


class SearchDataError(PegboardError, RuntimeError):
    """The table that says what words mean, which comes with Pegboard, is missing or damaged."""

    code: ClassVar[str] = "search_data"


class StorageError(PegboardError):
    """What is to be kept was not kept, or cannot be read; ``url`` says where."""

    code: ClassVar[str] = "storage"

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(message)
        self.url = url


class StoreUnavailableError(StorageError, OSError):
    """The store cannot be read or written now, and nothing was changed by the attempt."""

    code: ClassVar[str] = "store_unavailable"


class StoreDamagedError(StorageError, ValueError):
    """The store does not hold what was written to it; nothing in it is touched.

    ``line`` and ``column`` say where a file stops making sense, ``remedy`` what to run.
    """

    code: ClassVar[str] = "store_damaged"

    def __init__(
        self,
        problem: str,
        *,
        url: str,
        remedy: str,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        place = ":".join(str(part) for part in (url, line, column) if part is not None)
        super().__init__(
            f"{place}: {problem} Nothing was changed. What helps: `{remedy}`.",
            url=url,
        )
        self.problem = problem
        self.remedy = remedy
        self.line = line
        self.column = column


class StoreVersionError(StorageError):
    """The store was written by a newer Pegboard; nothing in it is touched."""

    code: ClassVar[str] = "store_version"

    def __init__(self, *, url: str, found: int, known: int) -> None:
        super().__init__(
            f"{url} is of version {found}, and this Pegboard knows versions up to {known}. "
            "Nothing was changed; use a newer Pegboard.",
            url=url,
        )
        self.found = found
        self.known = known


class RevisionConflictError(StorageError):
    """Somebody else wrote ``key`` first; read it again, and decide anew."""

    code: ClassVar[str] = "revision_conflict"

    def __init__(self, key: str, *, url: str, expected: int | None, found: int | None) -> None:
        wanted = "nothing" if expected is None else f"revision {expected}"
        there = "nothing" if found is None else f"revision {found}"
        super().__init__(
            f"{key!r} was changed by somebody else: {wanted} was expected, {there} is there. "
            "Read it again and decide anew.",
            url=url,
        )
        self.key = key
        self.expected = expected
        self.found = found


class UpstreamError(PegboardError):
    """A server could not do its part; ``server`` is its name, ``sent`` whether the tool may run."""

    code: ClassVar[str] = "upstream"

    def __init__(self, message: str, *, server: str, tool: str = "") -> None:
        super().__init__(message)
        self.server = server
        self.tool: str = tool


class ServerUnavailableError(UpstreamError, ConnectionError):
    """The server could not be started or reached, so nothing was sent to it."""

    code: ClassVar[str] = "server_unavailable"
    transient: ClassVar[bool] = True


class ServerTimeoutError(ServerUnavailableError, TimeoutError):
    """The server did not answer in time while connecting or listing."""

    code: ClassVar[str] = "server_timeout"


class CircuitOpenError(ServerUnavailableError):
    """The server failed too often; it is tried again after ``retry_in`` seconds."""

    code: ClassVar[str] = "circuit_open"

    def __init__(self, message: str, *, server: str, tool: str = "", retry_in: float = 0.0) -> None:
        super().__init__(message, server=server, tool=tool)
        self.retry_in = retry_in


class AuthenticationError(ServerUnavailableError, PermissionError):
    """The server does not accept the credentials it was given."""

    code: ClassVar[str] = "authentication"
    transient: ClassVar[bool] = False


class NotConnectedError(UpstreamError, RuntimeError):
    """Nobody has connected yet, or the connection was closed on purpose."""

    code: ClassVar[str] = "not_connected"


class ConnectionLostError(UpstreamError, ConnectionError):
    """The server went away before it answered. The tool may have run all the same."""

    code: ClassVar[str] = "connection_lost"
    outcome: ClassVar[Outcome] = "raised"
    sent: bool = True


class ProtocolError(UpstreamError, RuntimeError):
    """The server answered with a JSON-RPC error, or with something that is no answer."""

    code: ClassVar[str] = "protocol"
    outcome: ClassVar[Outcome] = "raised"
    sent: bool = True

    def __init__(
        self,
        message: str,
        *,
        server: str,
        tool: str = "",
        rpc_code: int | None = None,
        data: object = None,
    ) -> None:
        super().__init__(message, server=server, tool=tool)
        self.rpc_code = rpc_code
        """The code of the JSON-RPC error; ``None`` when the answer could not be read at all."""
        self.data = data


def _restore(
    kind: type[PegboardError], args: tuple[Any, ...], fields: dict[str, Any]
) -> PegboardError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


def _shorten(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
