"""GatewayPort: what the wires need of a gateway."""

from collections.abc import Mapping
from typing import Any, Protocol

from pegboard.gateway.request import Channel, Client, ClientRequest, Face
from pegboard.model.principal import Scope

__all__ = ["GatewayPort"]


class GatewayPort(Protocol):
    """Answers requests of clients, whatever wire they come by; `Gateway` is the one there is."""

    @property
    def info(self) -> Mapping[str, Any]:
        """Name and version, as clients are told."""
        ...

    def instructions_for(self, face: Face) -> str:
        """Return what a model is told about this server."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether calls are taken."""
        ...

    def capabilities(self, client_version: str) -> dict[str, Any]:
        """Return what a client of this protocol version is told that we can do."""
        ...

    async def admit(self, client: Client) -> None:
        """Refuse a client at once that came to an address where there is nothing for it.

        Raises:
            RpcError: what it is told instead of being let in.
        """
        ...

    async def respond(self, exchange: ClientRequest) -> dict[str, Any]:
        """Return the raw result of a request.

        Raises:
            RpcError: what is answered instead.
        """
        ...

    def own_tool(self, exchange: ClientRequest) -> str:
        """Return the name of the gateway's own tool that a request calls, if it calls one."""
        ...

    def missing_scope(self, exchange: ClientRequest) -> Scope | None:
        """Return the scope for lack of which a request is refused."""
        ...

    def parked(self, exchange: ClientRequest) -> int:
        """Return how many calls of a caller wait for answers, besides the one it now answers."""
        ...

    async def notified(self, exchange: ClientRequest) -> None:
        """Take a notification of a client."""
        ...

    def connected(self, client: Client, channel: Channel) -> None:
        """Hear that a session of the handshake era is up, and the way back to it."""
        ...

    def disconnected(self, session: str) -> None:
        """Hear that a session is over."""
        ...

    def input_schema(self, client: Client, tool: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool as this client sees it, if it does."""
        ...

    async def drain(self, seconds: float) -> None:
        """Refuse new calls, and wait so long for those under way."""
        ...
