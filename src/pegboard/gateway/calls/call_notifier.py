"""CallNotifier: progress and log notifications to the client while its call runs."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from pegboard.gateway.eras import LOG_LEVEL
from pegboard.gateway.request import Channel, ClientRequest, object_in

__all__ = ["LEVELS", "CallNotifier"]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The log levels of MCP, the least severe first."""


class CallNotifier:
    """Sends notifications with the request that waits for a call; drops them while it is parked.

    Args:
        request: the first request that waits for the call.
        level: the lowest log level to send, if a client of the handshake era has set one.
    """

    def __init__(self, request: ClientRequest, *, level: str | None = None) -> None:
        self.request: ClientRequest | None = request
        self._level = level
        self._lost: Mapping[str, Any] | None = None

    @property
    def wants_progress(self) -> bool:
        """True when the client asked for progress notifications."""
        return self.request is not None and _token(self.request) is not None

    @property
    def log_level(self) -> str | None:
        """The lowest log level to send; ``None`` if the client has not set one."""
        if self.request is None or self.request.client.era == "legacy":
            return self._level
        level: object = _meta_of(self.request).get(LOG_LEVEL)
        return level if isinstance(level, str) and level in LEVELS else None

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Notify the client of the progress of the call."""
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
        """Pass on a log message of the server, if it is severe enough."""
        request, wanted, level = self.request, self.log_level, params.get("level")
        if request is None:
            return
        if wanted is None:
            # Without a level, a client of the handshake era gets every message, a modern one none.
            is_severe = request.client.era == "legacy"
        else:
            is_severe = level not in LEVELS or LEVELS.index(level) >= LEVELS.index(wanted)
        if is_severe:
            await request.channel.notify("notifications/message", params)

    def redirect(self, channel: Channel | None) -> None:
        """Send later notifications over another channel, or none: the request has its result."""
        if self.request is not None:
            known = self.request
            self.request = None if channel is None else replace(known, channel=channel)

    def lost(self, params: Mapping[str, Any]) -> None:
        """Keep the log message that says how many messages were dropped for a slow client."""
        self._lost = params

    async def finish(self) -> None:
        """Send the message about dropped messages, ahead of the result."""
        if self._lost is not None:
            await self.log(self._lost)


def _meta_of(request: ClientRequest) -> Mapping[str, Any]:
    return object_in(request.params.get("_meta"))


def _token(request: ClientRequest) -> int | str | None:
    token: object = _meta_of(request).get("progressToken")
    return token if isinstance(token, int | str) else None
