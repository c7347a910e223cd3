"""ClientRequest: one request of a client, and the ways back to it, whatever wire it came by."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import msgspec
from mcp_types import INTERNAL_ERROR

from pegboard.model.json_values import object_in
from pegboard.model.principal import Principal, Surface
from pegboard.upstream import Era

__all__ = [
    "Channel",
    "Client",
    "ClientRequest",
    "Face",
    "OnWatched",
    "RpcError",
    "Surface",
    "object_in",
    "parts_in",
]

OnWatched = Callable[[str, BaseException | None], None]
"""Told the address of a resource that was to be watched, and what went wrong with that."""


class Face(msgspec.Struct, frozen=True, kw_only=True):
    """What a client sees, by the address it came to."""

    surface: Surface = "search"
    group: str | None = None
    """Only the tools of this server, tag or named profile; ``None`` for everything."""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a request, and what it can do."""

    principal: Principal
    era: Era
    version: str
    """Of the protocol, as this client speaks it."""
    face: Face = Face()
    capabilities: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    info: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    session: str = ""
    """Which conversation of the handshake era it belongs to; empty in the modern era."""


class Channel(Protocol):
    """The way back to a client: of one request while it runs, or of a whole session."""

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification; one that cannot be delivered any more is dropped."""
        ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its raw result; only clients of the handshake era answer.

        Raises:
            RpcError: when the client answers with an error, or cannot be asked.
        """
        ...


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a client; the parameters as they were sent, ``_meta`` included."""

    method: str
    params: Mapping[str, Any]
    client: Client
    channel: Channel
    id: int | str | None = None
    """Of the JSON-RPC request; `subscriptions/listen` sends it with every notification."""
    on_watched: OnWatched | None = None
    """Told of each resource that `subscriptions/listen` is to watch."""


class RpcError(Exception):
    """What is answered instead of a result: a JSON-RPC error, as it is sent."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


_MOST_PARTS = 10_000


def parts_in(value: object) -> list[Any] | None:
    """Return a list of parts of a server's answer; ``None`` for anything else.

    Raises:
        RpcError: when there are so many that everybody else would wait meanwhile.
    """
    if not isinstance(value, list):
        return None
    parts = cast("list[Any]", value)
    if len(parts) > _MOST_PARTS:
        words = f"The server answered with {len(parts)} parts, and {_MOST_PARTS} are the most."
        raise RpcError(INTERNAL_ERROR, words)
    return parts
