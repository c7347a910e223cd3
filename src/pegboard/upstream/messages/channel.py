"""MessageChannel: what carries the messages of a session, whatever its transport is."""

import asyncio  # noqa: TID251 - a future is woken from the middle of reading, which no event can be
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

import anyio

from pegboard.config.servers import MAX_RESPONSE_VALUES
from pegboard.upstream.messages.failures import FailedError, Failure
from pegboard.upstream.messages.jsonrpc import (
    Message,
    encode,
    number_near_the_ends,
    read_large_message,
    read_message,
    result_in,
)
from pegboard.upstream.messages.response_limits import LARGE, Pace

__all__ = ["DuplexChannel", "Exchanges", "MessageChannel", "Receive"]

T = TypeVar("T")

Receive: TypeAlias = Callable[[Message], Awaitable[None] | None]
"""Receives a notification or a request of a server, or a response that came too late.

It must not block.

What it may return is a wait for a slow client. A transport that can make the server wait awaits
it before it reads more.
"""

Write: TypeAlias = Callable[[bytes, int | str | None], Awaitable[None]]


class MessageChannel(Protocol):
    """Sends the messages of one session. Every failure is a `FailedError`."""

    cancels_by_closing: bool
    """True when a request of the modern era is cancelled by closing its connection."""
    set_headers: Callable[[Mapping[str, str]], None] | None
    """Replaces the runtime headers; ``None`` if the transport has no headers."""

    @property
    def keeps_session(self) -> bool:
        """True when the server may keep state between our requests."""
        ...

    async def request(
        self, message: Mapping[str, Any], headers: Mapping[str, str], receive: Receive
    ) -> dict[str, Any]:
        """Send a request and return its result.

        ``receive`` gets the messages that certainly belong to this request.

        Raises:
            ServerRpcError: when the server responds with an error.
            FailedError: when there is no response.
            UpstreamError: when the request cannot be written as JSON.
        """
        ...

    async def send(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Send a notification, or the response to a request of the server.

        Raises:
            FailedError: when it was not sent.
            UpstreamError: when it cannot be written as JSON.
        """
        ...


class Exchanges:
    """The running exchanges of a channel that has a connection for each of them."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._is_over = False

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run one exchange; when the channel is closed, it ends as lost.

        Raises:
            FailedError: when the channel was closed, before or meanwhile.
        """
        if self._is_over:
            raise FailedError(Failure(kind="not_sent", message="The connection is closed."))
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await work()
            finally:
                self._scopes.discard(scope)
        raise FailedError(Failure(kind="lost", message=""))

    def close(self) -> None:
        """End all running exchanges."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()


class DuplexChannel:
    """A channel over one stream in each direction, on which responses are matched by their id.

    Args:
        server: the name of the server, for errors.
        write: writes one encoded message, and is told the id of a request; it raises `FailedError`
            if the message was not sent.
        receive: gets the notifications and requests of the server.
        most_values: the most values of one response.
    """

    cancels_by_closing: bool = False
    keeps_session: bool = True

    def __init__(
        self, server: str, write: Write, receive: Receive, *, most_values: int = MAX_RESPONSE_VALUES
    ) -> None:
        self.pause: float = 0.0
        """How many seconds the transport is to wait before it reads more."""
        self.set_headers: Callable[[Mapping[str, str]], None] | None = None
        self.done: Callable[[int | str], None] = lambda _: None
        """Called with the id of each request that is over."""
        self._server = server
        self._write = write
        self._receive = receive
        self._most_values = most_values
        self._pace = Pace()
        self._waiting: dict[int | str | None, asyncio.Future[tuple[Message, bytes]]] = {}
        self._receivers: dict[int | str | None, Receive] = {}
        self._is_over = False

    async def request(
        self, message: Mapping[str, Any], headers: Mapping[str, str], receive: Receive
    ) -> dict[str, Any]:
        """Send a request and return its result."""
        line = encode(message, server=self._server)
        if self._is_over:
            raise FailedError(Failure(kind="not_sent", message="The connection is closed."))
        number = message["id"]
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._receivers[number] = receive
        try:
            await self._write(line, number)
            said, data = await answer
        finally:
            self._waiting.pop(number, None)
            self._receivers.pop(number, None)
            self.done(number)
            if not answer.cancel() and not answer.cancelled():
                # Retrieved, so that asyncio does not log an error that came too late for us.
                answer.exception()
        return await result_in(said, data)

    async def send(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Send a notification, or the response to a request of the server."""
        line = encode(message, server=self._server)
        if not self._is_over:
            await self._write(line, None)

    def take(self, data: bytes, came_with: int | str | None = None) -> bool:
        """Take the bytes of one message of the server; return whether it was one.

        ``came_with`` is the id of the request that it belongs to, if the transport can tell.
        """
        try:
            message = read_message(data)
        except FailedError as error:
            return self._refuse(data, error)
        return self._take(message, data, came_with)

    async def take_any(self, data: bytes, came_with: int | str | None = None) -> bool:
        """Do what `take` does, with a message of any size, and keep the pace of the server."""
        if len(data) <= LARGE:
            is_message = self.take(data, came_with)
        else:
            try:
                message = await read_large_message(data, self._most_values)
                is_message = self._take(message, data, came_with)
            except FailedError as error:
                is_message = self._refuse(data, error)
        if self.pause:
            await anyio.sleep(self.pause)
            self.pause = 0.0
        return is_message

    def _take(self, message: Message | None, data: bytes, came_with: int | str | None) -> bool:
        if message is None:
            self.pause = self._pace.spend(2 + len(data) / 128)
            return False
        if message.method is not None:
            # A request starts a task.
            units = 1 if message.id is None else 5
            self.pause = self._pace.spend(units + len(data) / 512)
            self._receivers.get(came_with, self._receive)(message)
            return True
        waiting = self._waiting.get(message.number)
        if message.id is None and message.error is not None and len(self._waiting) == 1:
            # An error without an id: the server could not read the only request under way.
            (waiting,) = self._waiting.values()
        if waiting is None and message.id is not None:
            self._receive(message)
        elif waiting is not None and not waiting.done():
            waiting.set_result((message, data))
        else:
            self.pause = self._pace.spend(1 + len(data) / 512)
        return True

    def _refuse(self, data: bytes, error: FailedError) -> bool:
        """End the request whose response is beyond a limit; it was a message all the same."""
        self.pause = self._pace.spend(1 + len(data) / 512)
        if (number := number_near_the_ends(data)) is not None:
            self.fail(number, error)
        return True

    def fail(self, number: int | str, error: Exception) -> None:
        """End the request with this id."""
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)

    def close(self, why_lost: str = "") -> None:
        """End all running requests, which may have run."""
        if self._is_over:
            return
        self._is_over = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(FailedError(Failure(kind="lost", message=why_lost)))
