"""ClientRequest: one JSON-RPC request of a client, and the channel back to it, on any transport."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import msgspec
from mcp_types import INTERNAL_ERROR

from pegboard.model.json_values import object_in
from pegboard.model.principal import Principal, Surface
from pegboard.model.task import TaskWatcher
from pegboard.model.tool import Tool
from pegboard.upstream import Era

__all__ = [
    "TRACE_LIMITS",
    "CallTask",
    "Channel",
    "Client",
    "ClientRequest",
    "Face",
    "OnTool",
    "OnWatched",
    "RpcError",
    "Surface",
    "object_in",
    "parts_in",
]

OnWatched = Callable[[str, BaseException | None], None]
"""Receives the URI of each resource to watch, and the error if the subscription failed."""
OnTool = Callable[[Tool], None]
"""Receives the tool that a call means, before the tool runs; the client gets what it raises."""
TRACE_LIMITS: Mapping[str, int] = {"traceparent": 512, "tracestate": 8192, "baggage": 8192}
"""The fields of a trace in ``_meta``, and how many characters each may have."""
_MOST_PARTS = 10_000


class Face(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the gateway that a client sees at the address it uses."""

    surface: Surface = "search"
    group: str | None = None
    """Only the tools of this server, tag or named profile; ``None`` for everything."""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """The sender of a request, and its capabilities."""

    principal: Principal
    era: Era
    version: str
    """The protocol version of this client."""
    face: Face = Face()
    capabilities: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """Reduced to those that the gateway carries."""
    info: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    session: str = ""
    """The id of its session in the handshake era; empty in the modern era."""
    tasks: bool = False
    """Whether it takes a task instead of a result, by the extension of the modern era."""


class Channel(Protocol):
    """The way back to a client, for one running request or for a whole session."""

    @property
    def can_ask(self) -> bool:
        """Whether the client can be asked now."""
        ...

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, or drop it if the client is gone."""
        ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its raw result; only clients of the handshake era can answer.

        Raises:
            RpcError: when the client answers with an error, or cannot be asked.
        """
        ...


class CallTask(TaskWatcher, Protocol):
    """The task that a call is, or may become: it takes what its server says meanwhile."""

    async def progress(self, progress: float, total: float | None, message: str | None, /) -> None:
        """Take the progress of the call."""
        ...

    async def log(self, params: Mapping[str, Any], /) -> None:
        """Take a log message of the server."""
        ...

    async def ask(self, method: str, params: Mapping[str, Any], /) -> Mapping[str, Any] | None:
        """Let the client answer a question, whenever it asks for the task; ``None`` declines."""
        ...


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a client; the parameters are as the client sent them, with ``_meta``."""

    method: str
    params: Mapping[str, Any]
    client: Client
    channel: Channel
    id: int | str | None = None
    """The JSON-RPC id; `subscriptions/listen` sends it with every notification."""
    on_watched: OnWatched | None = None
    """Called for each resource that `subscriptions/listen` asks to watch."""
    on_tool: OnTool | None = None
    """Called by `tools/call`, to check what the transport knows of the arguments."""
    task: CallTask | None = None
    """The task that the call is; ``None`` for a call whose client waits."""


class RpcError(Exception):
    """The JSON-RPC error that the gateway sends instead of a result."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def parts_in(value: object) -> list[Any] | None:
    """Return a list of parts of a server's answer; ``None`` for anything else.

    Raises:
        RpcError: when there are so many that other requests would have to wait.
    """
    if not isinstance(value, list):
        return None
    parts = cast("list[Any]", value)
    if len(parts) > _MOST_PARTS:
        words = f"The server answered with {len(parts)} parts, and {_MOST_PARTS} are the most."
        raise RpcError(INTERNAL_ERROR, words)
    return parts
