"""Limits: how much of this process one client may take."""

import msgspec

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds."""

    body: int = 4 * 1024 * 1024
    """Of one request."""
    headers: int = 64 * 1024
    """Of one request, with its address."""
    request_seconds: float = 30.0
    """Within which a request must have come, from when its connection was opened or it began."""
    unread_seconds: float = 30.0
    """Within which a client must have taken something of what was sent to it."""
    connections: int = 4096
    sessions: int = 10_000
    """Of the handshake era, together."""
    sessions_per_principal: int = 2000
    session_idle_seconds: float = 1800.0
    """A session without a request or an open stream ends after so many seconds."""
    keep_alive_seconds: float = 75.0
    """A connection between two requests is kept so long; longer than load balancers do."""
