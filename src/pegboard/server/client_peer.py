"""ClientPeer: the running requests of one client, and the requests that are sent to it."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import chain
from typing import Any, Protocol

import anyio
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

from pegboard.gateway.request import RpcError, object_in
from pegboard.server.jsonrpc import (
    error_message,
    internal_error,
    notification_message,
    request_message,
    result_message,
)
from pegboard.server.message_limits import RequestId, is_request_id
from pegboard.server.tracing import with_current_trace

__all__ = ["ClientPeer", "Outlet", "PeerChannel", "RunningRequest"]

logger: logging.Logger = logging.getLogger("pegboard.server")

SLOWEST_READER = 30.0
"""Seconds after which a notification is dropped that the client does not read."""

LONGEST_ANSWER = 600.0
"""Seconds that a client, and the person using it, have to respond to an elicitation."""

_LAST_WORDS = 5.0
"""Seconds in which a client is told that a request to it is cancelled."""
_NEVER_ENDS = "subscriptions/listen"
_CANCELLED = "notifications/cancelled"

Work = Callable[[], Awaitable[dict[str, Any]]]


class Outlet(Protocol):
    """Where messages to a client are written: an event stream, or standard output."""

    @property
    def is_over(self) -> bool:
        """Whether the client cannot be reached here any more."""
        ...

    async def send(self, message: bytes) -> None:
        """Write a message, or drop it if the client is gone."""
        ...


class RunningRequest:
    """A request of the client, from its arrival until its response is written."""

    __slots__ = ("id", "is_cancelled", "scope")

    def __init__(self, request_id: RequestId, scope: anyio.CancelScope) -> None:
        self.id: RequestId = request_id
        self.scope: anyio.CancelScope = scope
        """The scope in which the request runs."""
        self.is_cancelled: bool = False
        """Whether the client has cancelled it."""


class _ServerRequest:
    """A request to the client that waits for its response."""

    __slots__ = ("done", "error", "result")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.result: dict[str, Any] = {}
        self.error: RpcError | None = None


class ClientPeer:
    """The JSON-RPC state of one client. Ids are compared as text: some clients return 7 as "7"."""

    def __init__(self) -> None:
        self._running: dict[str, list[RunningRequest]] = {}
        """By id; a client should not use an id twice at once, and some do."""
        self._unanswered: set[RunningRequest] = set()
        self._all_answered = anyio.Event()
        self._asked: dict[str, _ServerRequest] = {}
        self._last_id = 0
        self._is_closed = False

    def begin(
        self, message: Mapping[str, Any], *, scope: anyio.CancelScope | None = None
    ) -> RunningRequest:
        """Note that a request has arrived: from now on the client can cancel it."""
        running = RunningRequest(message["id"], anyio.CancelScope() if scope is None else scope)
        self._running.setdefault(str(running.id), []).append(running)
        if message["method"] != _NEVER_ENDS:
            self._unanswered.add(running)
        return running

    async def run(self, running: RunningRequest, work: Work) -> bytes:
        """Return the response to a request, or nothing if it was cancelled."""
        try:
            with running.scope:
                try:
                    return result_message(running.id, await work())
                except RpcError as error:
                    return error_message(running.id, error)
                except Exception:
                    # The other requests of the client go on.
                    logger.exception("A request could not be answered.")
                    return error_message(running.id, internal_error())
        finally:
            same_id = self._running[str(running.id)]
            same_id.remove(running)
            if not same_id:
                del self._running[str(running.id)]
        return b""

    def end(self, running: RunningRequest) -> None:
        """Note that the response to a request is written."""
        self._unanswered.discard(running)
        if not self._unanswered:
            self._all_answered.set()

    async def serve(self, running: RunningRequest, work: Work, outlet: Outlet) -> None:
        """Run a request, and write its response; a request that the client cancelled gets none."""
        try:
            response = await self.run(running, work) or error_message(running.id, _closed())
            if not running.is_cancelled:
                await outlet.send(response)
        finally:
            self.end(running)

    def note(self, message: Mapping[str, Any]) -> None:
        """Take a response to one of our requests, or the cancellation of a running request."""
        if "method" not in message:
            self._respond(message)
        elif message["method"] == _CANCELLED:
            request_id = object_in(message.get("params")).get("requestId")
            named = self._running.get(str(request_id), ()) if is_request_id(request_id) else ()
            for running in named:
                running.is_cancelled = True
                running.scope.cancel()
                self.end(running)

    async def ask(self, outlet: Outlet, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to the client, and return its result.

        Raises:
            RpcError: when the client responds with an error, too late, or cannot be reached.
        """
        if self._is_closed or outlet.is_over:
            raise _closed()
        self._last_id += 1
        request_id = self._last_id
        asked = self._asked[str(request_id)] = _ServerRequest()
        try:
            with anyio.move_on_after(LONGEST_ANSWER):
                message = request_message(request_id, method, with_current_trace(params))
                await outlet.send(message)
                await asked.done.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await _take_back(outlet, request_id, "caller cancelled")
            raise
        finally:
            del self._asked[str(request_id)]
        if not asked.done.is_set():
            await _take_back(outlet, request_id, f"timed out after {LONGEST_ANSWER:g}s")
            words = f"The client did not answer {method} within {LONGEST_ANSWER:g} seconds."
            raise RpcError(REQUEST_TIMEOUT, words)
        if asked.error is not None:
            raise asked.error
        return asked.result

    async def wait_until_answered(self, seconds: float) -> None:
        """Wait until every response is written, but not for longer than this."""
        with anyio.move_on_after(seconds):
            while self._unanswered:
                self._all_answered = anyio.Event()
                await self._all_answered.wait()

    def close(self, *, by_client: bool = False) -> None:
        """Cancel all requests, those of the client and those to it.

        Args:
            by_client: whether the client has ended its session; then it cancelled its requests.
        """
        self._is_closed = True
        for running in chain.from_iterable(self._running.values()):
            running.is_cancelled = running.is_cancelled or by_client
            running.scope.cancel()
        for asked in self._asked.values():
            asked.error = _closed()
            asked.done.set()

    def _respond(self, message: Mapping[str, Any]) -> None:
        asked = self._asked.get(str(message["id"]))
        if asked is None or asked.done.is_set():
            return  # too late
        if "error" in message:
            said = message["error"]
            asked.error = RpcError(said["code"], said["message"], said.get("data"))
        else:
            asked.result = message["result"]
        asked.done.set()


class PeerChannel:
    """The `Channel` of one request, or of a whole session: sends to a client through an outlet."""

    __slots__ = ("_is_over", "_outlet", "_peer")

    def __init__(self, peer: ClientPeer, outlet: Outlet) -> None:
        self._peer = peer
        self._outlet = outlet
        self._is_over = False

    @property
    def can_ask(self) -> bool:
        """Whether the client can be asked here now."""
        return not self._is_over and not self._outlet.is_over

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, unless the client is gone or does not read."""
        if not self._is_over:
            with anyio.move_on_after(SLOWEST_READER):
                await self._outlet.send(notification_message(method, params))

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to the client, and return its result.

        Raises:
            RpcError: when the client responds with an error, too late, or cannot be reached.
        """
        if self._is_over:
            raise _closed()
        return await self._peer.ask(self._outlet, method, params)

    def close(self) -> None:
        """Send nothing more: the request has its response."""
        self._is_over = True


async def _take_back(outlet: Outlet, request_id: int, reason: str) -> None:
    with anyio.move_on_after(_LAST_WORDS):
        params = {"requestId": request_id, "reason": reason}
        await outlet.send(notification_message(_CANCELLED, params))


def _closed() -> RpcError:
    return RpcError(CONNECTION_CLOSED, "Connection closed")
