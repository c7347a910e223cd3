"""Connection: what the rest of Pegboard knows about a server it talks to."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Literal, Protocol

import msgspec

from pegboard.errors import PegboardError, ServerUnavailableError

__all__ = [
    "Connection",
    "Era",
    "ListChanged",
    "Negotiated",
    "OnProgress",
    "ServerBusyError",
    "ServerState",
    "Session",
    "SessionLostError",
]

Era = Literal["legacy", "modern"]
"""``legacy`` servers begin with a handshake; ``modern`` ones (2026-07-28) need none."""

OnProgress = Callable[[float, float | None, str | None], Awaitable[object] | object]
"""Receives progress, total and a message while a call runs; may be a coroutine function."""

ListChanged = Literal["tools", "resources", "prompts"]
"""Which list of a server is not what it was."""


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
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Send one request and return its raw result."""
        ...

    async def list_all(self, method: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list."""
        ...

    async def watch(self) -> None:
        """Report changed lists for as long as it lasts."""
        ...


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
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Connect if need be, send one request and return its raw result."""
        ...

    async def list_all(self, method: str) -> list[dict[str, Any]]:
        """Connect if need be, and return the items of all pages of a list."""
        ...

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, without connecting again."""
        ...

    def recall(self, negotiated: Negotiated) -> None:
        """Start from what an earlier run found out."""
        ...

    def blame(self, reason: str | None) -> None:
        """Note what is wrong with a server that is connected all the same, or that it is mended."""
        ...
