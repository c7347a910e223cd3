"""Errors of configuration files and upstream servers: unavailable, timeout, lost task."""

import re
from collections.abc import Sequence
from typing import ClassVar

from pegboard.errors.root import LISTED, Outcome, PegboardError, shorten

__all__ = [
    "CircuitOpenError",
    "ConfigError",
    "ConnectionLostError",
    "NotConnectedError",
    "ProtocolError",
    "ServerAuthenticationError",
    "ServerNotFoundError",
    "ServerTimeoutError",
    "ServerUnavailableError",
    "TaskCancelledError",
    "TaskError",
    "TaskLostError",
    "TaskTimeoutError",
    "UnsupportedResultError",
    "UntrustedAddressError",
    "UpstreamError",
    "without_name",
]


class ConfigError(PegboardError, ValueError):
    """A configuration file or one of its entries cannot be used.

    ``is_missing`` says that the file does not exist.
    """

    code: ClassVar[str] = "config"

    def __init__(
        self,
        problem: str,
        *,
        path: str | None = None,
        line: int | None = None,
        column: int | None = None,
        is_missing: bool = False,
    ) -> None:
        place = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{place}: {problem}" if place else problem)
        self.problem = problem
        self.path = path
        self.line = line
        self.column = column
        self.is_missing = is_missing


class ServerNotFoundError(PegboardError, KeyError, ValueError):
    """No server has that name."""

    code: ClassVar[str] = "server_not_found"

    def __init__(self, name: object, *, known: Sequence[str] = ()) -> None:
        names = ", ".join(repr(other) for other in known[:LISTED]) or "none"
        super().__init__(f"No server is named {shorten(name)}; known: {names}.")
        self.name = name
        self.known: tuple[str, ...] = tuple(known)


class UpstreamError(PegboardError):
    """A server failed; ``server`` is its name, and ``sent`` says whether the tool may have run."""

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
    """The server failed too often, so its circuit breaker is open for ``retry_in`` seconds."""

    code: ClassVar[str] = "circuit_open"

    def __init__(self, message: str, *, server: str, tool: str = "", retry_in: float = 0.0) -> None:
        super().__init__(message, server=server, tool=tool)
        self.retry_in = retry_in


class ServerAuthenticationError(ServerUnavailableError, PermissionError):
    """The server does not accept the credentials of its configuration."""

    code: ClassVar[str] = "authentication"
    transient: ClassVar[bool] = False


class UntrustedAddressError(ServerAuthenticationError):
    """The login of a server leads to an address that is not trusted; nothing was sent there.

    ``host`` is the host to name in ``oauth.trusted_hosts``, if the operator trusts it.
    """

    code: ClassVar[str] = "untrusted_address"

    def __init__(self, message: str, *, server: str, tool: str = "", host: str = "") -> None:
        super().__init__(message, server=server, tool=tool)
        self.host = host


class NotConnectedError(UpstreamError, RuntimeError):
    """The connection has not been opened yet, or the program has closed it."""

    code: ClassVar[str] = "not_connected"


class ConnectionLostError(UpstreamError, ConnectionError):
    """The server went away before it answered. The tool may have run nevertheless."""

    code: ClassVar[str] = "connection_lost"
    outcome: ClassVar[Outcome] = "raised"
    sent: bool = True


class ProtocolError(UpstreamError, RuntimeError):
    """The server answered with a JSON-RPC error, or with a message that is not valid MCP."""

    code: ClassVar[str] = "protocol"
    outcome: ClassVar[Outcome] = "raised"
    sent: bool = True
    rpc_message: str | None = None
    """The server's own message in a JSON-RPC error, without Pegboard's words around it."""

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


class UnsupportedResultError(ProtocolError):
    """The server answered with a result of a type that Pegboard does not carry.

    The server may have acted, or may still act. ``result_type`` is the type.
    """

    code: ClassVar[str] = "unsupported_result"

    def __init__(self, message: str, *, server: str, tool: str = "", result_type: str = "") -> None:
        super().__init__(message, server=server, tool=tool)
        self.result_type = result_type


class TaskError(UpstreamError):
    """The task that a server made of a call ended without a result; ``task`` is its id.

    The tool may have run nevertheless.
    """

    code: ClassVar[str] = "task"
    outcome: ClassVar[Outcome] = "raised"
    sent: bool = True

    def __init__(self, message: str, *, server: str, tool: str = "", task: str = "") -> None:
        super().__init__(message, server=server, tool=tool)
        self.task = task


class TaskLostError(TaskError, LookupError):
    """The server no longer knows the task: it expired, or the server forgot it."""

    code: ClassVar[str] = "task_lost"


class TaskCancelledError(TaskError, RuntimeError):
    """The task was cancelled at the server."""

    code: ClassVar[str] = "task_cancelled"


class TaskTimeoutError(TaskError, TimeoutError):
    """The task did not end before it expired, or within `timeouts.task` of the server."""

    code: ClassVar[str] = "task_timeout"
    outcome: ClassVar[Outcome] = "timeout"


def without_name(server: str, text: str) -> str:
    """Return what is said of a server without its name at the beginning, for where that was told.

    A command or an address behind the name becomes the subject.
    """
    begin = f"Server {server!r}"
    for end in (" cannot be started: ", " could not be started: ", ", ", ": "):
        if text.startswith(begin + end):
            return text[len(begin + end) :]
    if not text.startswith(f"{begin} ("):
        return text
    body = text[len(begin) + 2 :]
    for it in re.finditer(r"\) ", body):
        target = body[: it.start()]
        if target.count("(") == target.count(")"):
            return f"{target} {body[it.end() :]}"
    return text
