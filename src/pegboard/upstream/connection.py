"""Connection: what the rest of Pegboard knows about a server it talks to."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Literal, Protocol

import anyio
import msgspec

from pegboard.errors import PegboardError, ServerUnavailableError
from pegboard.upstream.call_context import CallContext

__all__ = [
    "Changed",
    "Connection",
    "ConnectionCallbacks",
    "Era",
    "Greeting",
    "Negotiated",
    "OnChanged",
    "ServerBusyError",
    "ServerState",
    "Session",
    "SessionLostError",
    "WatchedResources",
]


class WatchedResources:
    """The URIs that are watched, each by as many as asked for it; sessions come and go."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()
        self._changed = anyio.Event()
        self._asked: frozenset[str] = frozenset()
        self._granted: frozenset[str] = frozenset()
        self._answered = anyio.Event()

    @property
    def uris(self) -> frozenset[str]:
        """What is watched now."""
        return frozenset(self._count)

    def add(self, uri: str) -> bool:
        """Watch a resource; ``True`` if nobody did before."""
        self._count[uri] += 1
        if self._count[uri] > 1:
            return False
        self._wake()
        return True

    def remove(self, uri: str) -> bool:
        """Watch a resource no longer; ``True`` if nobody does now."""
        if uri not in self._count:
            return False
        self._count[uri] -= 1
        if self._count[uri]:
            return False
        del self._count[uri]
        self._wake()
        return True

    async def changed(self) -> None:
        """Wait until other resources are watched than now."""
        await self._changed.wait()

    def answered(self, asked: frozenset[str], granted: frozenset[str]) -> None:
        """Note what a server of the modern era was asked to tell about, and agreed to."""
        self._asked, self._granted = asked, granted
        waiting, self._answered = self._answered, anyio.Event()
        waiting.set()

    async def granted(self, uri: str) -> bool:
        """Wait until a server of the modern era was asked, and tell whether it agreed."""
        while uri not in self._asked:
            await self._answered.wait()
        return uri in self._granted

    def _wake(self) -> None:
        waiting, self._changed = self._changed, anyio.Event()
        waiting.set()


Era = Literal["legacy", "modern"]
"""``legacy`` servers begin with a handshake; ``modern`` ones (2026-07-28) need none."""

Greeting = Literal["ask", "trust", "legacy"]
"""How a session begins: ``ask`` what the server speaks and offers, ``trust`` the configuration if
it names the protocol, or shake hands as with the ``legacy`` server that it was."""

Changed = Literal["tools", "resources", "prompts", "resource", "elicitation"]
"""Which list of a server is not what it was; or one resource that somebody watches; or that a page
has been visited that somebody was asked to visit."""

OnChanged = Callable[[Changed, str], None]
"""Told what is not what it was; of a resource, its URI; of a page, the id of the question."""


class ServerState(StrEnum):
    """Where a server is in its life."""

    COLD = "cold"
    """Not running; the next call starts it."""
    STARTING = "starting"
    READY = "ready"
    DOWN = "down"
    """It failed or was lost; the next call tries again, and the background too if it is eager."""
    TRIPPED = "tripped"
    """It failed so often that calls are refused for a while."""
    CLOSED = "closed"
    DISABLED = "disabled"
    """Switched off in the configuration."""


class SessionLostError(ServerUnavailableError):
    """The server forgot our session, and did nothing with the request; a new session helps."""


class ServerBusyError(ServerUnavailableError):
    """The server is there, but takes no requests just now."""


class Negotiated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server said of itself when it was first asked."""

    era: Era
    version: str
    server_name: str = ""
    server_version: str = ""
    instructions: str = ""
    capabilities: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])


class Session(Protocol):
    """An open conversation with a server. Whatever goes wrong is one of our errors."""

    negotiated: Negotiated
    keeps_session: bool
    """True when the server keeps state between our calls, as far as one can tell."""
    set_headers: Callable[[Mapping[str, str]], None] | None
    """Sends other headers from now on; ``None`` where there are no headers."""

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        tool: str = "",
        context: CallContext | None = None,
    ) -> dict[str, Any]:
        """Send one request and return its raw result."""
        ...

    async def list_all(self, method: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list."""
        ...

    async def watch(self, resources: WatchedResources) -> None:
        """Report changed lists and resources for as long as it lasts."""
        ...

    async def notify(self, method: str) -> None:
        """Send a notification without parameters."""
        ...


class ConnectionCallbacks(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner of a connection is told, and is asked."""

    on_ready: Callable[[Session], Awaitable[None]] | None = None
    on_changed: OnChanged = lambda _, __: None
    on_state: Callable[[ServerState], None] = lambda _: None
    tries_by_itself: Callable[[], bool] = lambda: False
    """Whether to connect again without being asked to."""
    watched: WatchedResources = msgspec.field(default_factory=WatchedResources)


class Connection(Protocol):
    """A way to a server that opens by itself, and can be closed and opened again."""

    @property
    def state(self) -> ServerState:
        """Where the server is in its life."""
        ...

    @property
    def negotiated(self) -> Negotiated | None:
        """What the server said of itself; ``None`` before it was asked."""
        ...

    @property
    def last_error(self) -> str | None:
        """Why the server was last not reached, or lost."""
        ...

    @property
    def failure(self) -> PegboardError | None:
        """The error with which connecting last failed; ``None`` once it succeeded."""
        ...

    @property
    def startup_seconds(self) -> float | None:
        """How long connecting took."""
        ...

    @property
    def starts(self) -> int:
        """How often it was connected to."""
        ...

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        ...

    async def open(self, *, tool: str = "") -> None:
        """Connect now, or wait for whoever is connecting."""
        ...

    async def close(self) -> None:
        """Disconnect; also when not connected."""
        ...

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        tool: str = "",
        context: CallContext | None = None,
    ) -> dict[str, Any]:
        """Connect if need be, send one request and return its raw result."""
        ...

    async def list_all(self, method: str) -> list[dict[str, Any]]:
        """Connect if need be, and return the items of all pages of a list."""
        ...

    async def notify(self, method: str) -> None:
        """Send a notification, if there is a session that could want to know."""
        ...

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, without connecting again."""
        ...

    def read_cached_tools(self, negotiated: Negotiated) -> None:
        """Start from what an earlier run found out."""
        ...

    def blame(self, reason: str | None) -> None:
        """Note what is wrong with a server that is connected all the same, or that it is mended."""
        ...
