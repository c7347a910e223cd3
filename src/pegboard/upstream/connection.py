"""Connection: the protocols of a connection and a session, and the states of a server."""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Literal, Protocol

import anyio
import msgspec

from pegboard.errors import ConnectionLostError, ProtocolError, ServerUnavailableError
from pegboard.model.call import Phases
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.events import ServerEvent, ServerLogger
from pegboard.upstream.owner_loop import OwnerLoop
from pegboard.upstream.server_requests import Questions

__all__ = [
    "Changed",
    "ConnectionCallbacks",
    "ConnectionDeps",
    "Era",
    "Greeting",
    "HeaderMismatchError",
    "Negotiated",
    "OnChanged",
    "Request",
    "ResumableLossError",
    "ResumePoint",
    "ServerBusyError",
    "ServerState",
    "Session",
    "SessionLostError",
    "WatchedResources",
]


Era = Literal["legacy", "modern"]
"""``legacy`` servers begin with a handshake; ``modern`` ones (2026-07-28) need none."""

Greeting = Literal["ask", "trust", "legacy"]
"""How a session begins: ``ask`` the server for its protocol and capabilities, ``trust`` the
configuration if it names the protocol, or begin with the handshake of a ``legacy`` server."""

Changed = Literal["tools", "resources", "prompts", "resource", "elicitation"]
"""What changed: a list of the server, a subscribed resource, or an elicitation by URL that is
complete."""

OnChanged = Callable[[Changed, str], None]
"""Called with what changed, and the URI of the resource or the id of the elicitation."""


class WatchedResources:
    """The subscribed resource URIs, each with its number of subscribers, across sessions."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()
        self._changed = anyio.Event()
        self._asked: frozenset[str] = frozenset()
        self._granted: frozenset[str] = frozenset()
        self._answered = anyio.Event()

    @property
    def uris(self) -> frozenset[str]:
        """The URIs that are subscribed now."""
        return frozenset(self._count)

    def __contains__(self, uri: object) -> bool:
        return uri in self._count

    def add(self, uri: str) -> bool:
        """Add a subscriber of a resource; ``True`` if it is the first one."""
        self._count[uri] += 1
        if self._count[uri] > 1:
            return False
        self._wake()
        return True

    def remove(self, uri: str) -> bool:
        """Remove a subscriber of a resource; ``True`` if it was the last one."""
        if uri not in self._count:
            return False
        self._count[uri] -= 1
        if self._count[uri]:
            return False
        del self._count[uri]
        self._wake()
        return True

    async def changed(self) -> None:
        """Wait until the set of subscribed resources changes."""
        await self._changed.wait()

    def answered(self, asked: frozenset[str], granted: frozenset[str]) -> None:
        """Note which resources a server of the modern era was asked for, and which it granted."""
        self._asked, self._granted = asked, granted
        waiting, self._answered = self._answered, anyio.Event()
        waiting.set()

    async def granted(self, uri: str) -> bool:
        """Wait until a server of the modern era was asked, and tell whether it granted the URI."""
        while uri not in self._asked:
            await self._answered.wait()
        return uri in self._granted

    def _wake(self) -> None:
        waiting, self._changed = self._changed, anyio.Event()
        waiting.set()


class ServerState(StrEnum):
    """The state of a server."""

    COLD = "cold"
    """The server is not running; the next call starts it."""
    STARTING = "starting"
    READY = "ready"
    DOWN = "down"
    """The server failed or was lost; the next call tries again, and so does the background."""
    TRIPPED = "tripped"
    """The circuit breaker is open: the server failed so often that calls are refused."""
    CLOSED = "closed"
    DISABLED = "disabled"
    """The configuration switches the server off."""


class SessionLostError(ServerUnavailableError):
    """The server has forgotten the session and did not run the request; a new session helps."""


class ServerBusyError(ServerUnavailableError):
    """The server is reachable, but accepts no requests just now."""


class HeaderMismatchError(ProtocolError):
    """The server wants arguments in headers that the request did not have, and did not run it."""

    sent: bool = False


class ResumePoint(msgspec.Struct, frozen=True):
    """Where the stream of a response ended."""

    number: int | str
    """The id of the request."""
    last_event: str
    pause: float
    """The seconds after which the server wants to be asked."""


class ResumableLossError(ConnectionLostError):
    """The stream of a response ended too soon, and the server may resume it."""

    resume: ResumePoint


class Negotiated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server said about itself when the session began."""

    era: Era
    version: str
    server_name: str = ""
    server_version: str = ""
    instructions: str = ""
    capabilities: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request, with all that it needs on its way."""

    method: str
    params: Mapping[str, Any] | None = None
    tool: str = ""
    """The name of the tool in errors."""
    context: CallContext | None = None
    questions: Questions | None = None
    """Handlers of what the server asks; the time that they take does not count."""
    limit: float = math.inf
    """The seconds that one attempt may take; connecting has a limit of its own."""
    remedy: str = ""
    """What helps when that is too short."""
    idempotent: bool = False
    """Whether it is declared safe to run twice."""
    phases: Phases | None = None
    """Where the time of connecting, at the server, and of a person is added."""


class Session(Protocol):
    """An open session with a server. Every failure is one of Pegboard's errors."""

    negotiated: Negotiated
    keeps_session: bool
    """True when the server may keep state between our calls."""
    set_headers: Callable[[Mapping[str, str]], None] | None
    """Replaces the runtime headers; ``None`` if the transport has no headers."""

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        tool: str = "",
        context: CallContext | None = None,
        resume: ResumePoint | None = None,
    ) -> dict[str, Any]:
        """Send one request, or resume its response, and return its raw result."""
        ...

    async def list_all(self, method: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list."""
        ...

    async def watch(self, resources: WatchedResources) -> None:
        """Report changed lists and resources for as long as this runs."""
        ...

    async def notify(self, method: str) -> None:
        """Send a notification without parameters."""
        ...

    def follow_task(
        self, task_id: str, context: CallContext, on_status: Callable[[], object]
    ) -> None:
        """Deliver what a server of the handshake era sends about a task, until `forget_task`.

        ``on_status`` is called when the server says that the status of the task has changed.
        """
        ...

    def forget_task(self, task_id: str, *, is_over: bool) -> None:
        """Deliver no more of a task; one that is not over may still send something."""
        ...


class ConnectionCallbacks(msgspec.Struct, frozen=True, kw_only=True):
    """The callbacks of a connection to its owner."""

    on_ready: Callable[[Session], Awaitable[None]] | None = None
    on_changed: OnChanged = lambda _, __: None
    on_state: Callable[[ServerState], None] = lambda _: None
    tries_by_itself: Callable[[], bool] = lambda: False
    """Tells whether to reconnect in the background."""
    watched: WatchedResources = msgspec.field(default_factory=WatchedResources)


class ConnectionDeps(msgspec.Struct, frozen=True, kw_only=True):
    """What the connections of a hub share."""

    owner_loop: OwnerLoop
    """Where the tasks of the connections run."""
    starts: anyio.CapacityLimiter
    """How many servers may start at the same time."""
    pool: Callable[[], Any]
    """Returns the shared `HttpPool`; a function, because making one imports the HTTP library."""
    questions: Questions = Questions()
    greeting: Greeting = "ask"
    announce: Callable[[ServerEvent], None] = lambda _: None
    """Reports a server event to the subscribers of the hub."""
    log: ServerLogger | None = None
    """Keeps the output of the servers, and what becomes of them."""
