"""GatewayPort: the protocol through which every transport reaches the gateway."""

from collections.abc import Mapping
from typing import Any, Protocol

from pegboard.gateway.request import Channel, Client, ClientRequest, Face
from pegboard.model.principal import Scope

__all__ = ["GatewayPort"]


class GatewayPort(Protocol):
    """Responds to the requests of clients, on every transport; `Gateway` implements it."""

    @property
    def info(self) -> Mapping[str, Any]:
        """The name and version that clients are told."""
        ...

    def instructions_for(self, face: Face) -> str:
        """Return the instructions that a model gets about this server."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether the gateway accepts calls."""
        ...

    def capabilities(self, client_version: str, client: Client | None = None) -> dict[str, Any]:
        """Return the capabilities that a client of this protocol version is told."""
        ...

    async def admit(self, client: Client) -> None:
        """Check that the address a client came to has something for it.

        Raises:
            RpcError: the refusal that the client gets.
        """
        ...

    async def respond(self, request: ClientRequest, /) -> dict[str, Any]:
        """Return the raw result of a request.

        Raises:
            RpcError: the error that the client gets instead.
        """
        ...

    def own_tool(self, request: ClientRequest, /) -> str:
        """Return the name of the gateway's own tool that a request calls, or an empty string."""
        ...

    def missing_scope(self, request: ClientRequest, /) -> Scope | None:
        """Return the scope that the caller lacks for a request; ``None`` if it lacks none."""
        ...

    def parked(self, request: ClientRequest, /) -> int:
        """Count the suspended calls of a caller, except the one that this request continues."""
        ...

    async def notified(self, request: ClientRequest, /) -> None:
        """Handle a notification of a client."""
        ...

    def connected(self, client: Client, channel: Channel) -> None:
        """Note that a session of the handshake era is open, and how to reach its client."""
        ...

    def disconnected(self, session: str) -> None:
        """Note that a session is over."""
        ...

    async def drain(self, seconds: float) -> None:
        """Refuse new calls, and wait this many seconds for the running ones."""
        ...
