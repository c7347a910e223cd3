"""ServerStatus: what users are shown of a server: its state, its era, its tools, its errors."""

from collections.abc import Mapping

import msgspec

from pegboard.config import ServerConfig
from pegboard.model.hidden_characters import visible
from pegboard.upstream.catalog.feed import CatalogFeed
from pegboard.upstream.connection import Era, ServerState
from pegboard.upstream.connections.stateful import StatefulConnection

__all__ = ["ServerStatus", "status_of"]


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a server at one moment; it contains no secrets."""

    name: str
    state: ServerState
    transport: str
    target: str
    era: Era | None = None
    """``None`` until the first session."""
    protocol_version: str | None = None
    server_version: str | None = None
    tool_count: int = 0
    left_out: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Tools that cannot be used, and why."""
    warnings: tuple[str, ...] = ()
    """What the user should check, such as a pattern of ``allow`` that no tool matches."""
    last_error: str | None = None
    startup_seconds: float | None = None
    starts: int = 0
    instructions: str | None = None


def status_of(
    config: ServerConfig, connection: StatefulConnection, feed: CatalogFeed
) -> ServerStatus:
    """Return the present status of a server."""
    said = connection.negotiated
    return ServerStatus(
        name=config.name,
        state=connection.state if config.enabled else ServerState.DISABLED,
        transport=config.transport,
        target=config.target,
        era=said.era if said else None,
        protocol_version=said.version if said else None,
        server_version=visible(said.server_version) or None if said else None,
        tool_count=feed.on_board(),
        left_out=feed.missing(),
        warnings=feed.warnings,
        last_error=connection.last_error,
        startup_seconds=connection.startup_seconds,
        starts=connection.starts,
        instructions=visible(said.instructions) or None if said else None,
    )
