"""CallNotifier: how a call reaches its client while it runs."""

from collections.abc import Mapping
from typing import Any

from pegboard.gateway.eras import LOG_LEVEL, RESERVED
from pegboard.gateway.request import ClientRequest, object_in

__all__ = ["LEVELS", "CallNotifier", "meta_of", "own_meta_of"]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""How grave a log message can be, the least grave first."""


class CallNotifier:
    """Leads to the request that waits for the call; to nobody while the call is parked.

    Args:
        request: who waits for it first.
        level: how grave a log message must be, if a client of the handshake era has said so.
    """

    def __init__(self, request: ClientRequest, *, level: str | None = None) -> None:
        self.request: ClientRequest | None = request
        self._level = level
        self._lost: Mapping[str, Any] | None = None

    @property
    def wants_progress(self) -> bool:
        """True when the client asked to be told how far the call is."""
        return self.request is not None and _token(self.request) is not None

    @property
    def log_level(self) -> str | None:
        """How grave a log message must be to be sent; ``None`` if the client has not said."""
        if self.request is None or self.request.client.era == "legacy":
            return self._level
        level: object = meta_of(self.request).get(LOG_LEVEL)
        return level if isinstance(level, str) and level in LEVELS else None

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell how far the call is."""
        request = self.request
        token = None if request is None else _token(request)
        if request is None or token is None:
            return
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await request.channel.notify("notifications/progress", params)

    async def log(self, params: Mapping[str, Any]) -> None:
        """Pass on what a server logs, if it is grave enough."""
        request, wanted, level = self.request, self.log_level, params.get("level")
        if request is None:
            return
        if wanted is None:
            # Then a client of the handshake era gets what the server sends, and a modern one none.
            is_grave = request.client.era == "legacy"
        else:
            is_grave = level not in LEVELS or LEVELS.index(level) >= LEVELS.index(wanted)
        if is_grave:
            await request.channel.notify("notifications/message", params)

    def lost(self, params: Mapping[str, Any]) -> None:
        """Keep the log message that says how many the client did not take in time."""
        self._lost = params

    async def finish(self) -> None:
        """Tell that ahead of the result, which a client that reads nothing does not have yet."""
        if self._lost is not None:
            await self.log(self._lost)


def meta_of(request: ClientRequest) -> Mapping[str, Any]:
    """Return the ``_meta`` that a client sent."""
    return object_in(request.params.get("_meta"))


def own_meta_of(request: ClientRequest) -> dict[str, Any]:
    """Return what a client sent there for the server, without what is the protocol's own."""
    return {
        key: value
        for key, value in meta_of(request).items()
        if key != "progressToken" and not key.startswith(RESERVED)
    }


def _token(request: ClientRequest) -> int | str | None:
    token: object = meta_of(request).get("progressToken")
    return token if isinstance(token, int | str) else None
