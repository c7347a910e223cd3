"""Unanswered: the requests of one client whose answers it may still wait for."""

import anyio
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from pegboard.server.messages import RequestId, is_request_id

__all__ = ["Unanswered"]

_NEVER_ENDS = "subscriptions/listen"


class Unanswered:
    """Follows the messages of a session in both directions."""

    def __init__(self) -> None:
        self._ids: set[RequestId] = set()
        self._none_left = anyio.Event()

    def add(self, message: object) -> None:
        """Take note of what the client said: a request, or that it takes one back."""
        match message:
            case JSONRPCRequest(method=method, id=it) if method != _NEVER_ENDS:
                self._ids.add(it)
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": it}):
                if is_request_id(it):
                    self._discard(it)
            case _:
                pass

    def remove(self, message: object) -> None:
        """Take note of what was written to the client."""
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._discard(message.id)

    async def wait(self, seconds: float) -> None:
        """Wait until every answer is written, but not for longer than this."""
        with anyio.move_on_after(seconds):
            while self._ids:
                self._none_left = anyio.Event()
                await self._none_left.wait()

    def _discard(self, request_id: RequestId) -> None:
        self._ids.discard(request_id)
        if not self._ids:
            self._none_left.set()
