"""The streamable HTTP transport: each request is one exchange, and may stream events."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp
import anyio
import msgspec

from pegboard.config.servers import ServerConfig
from pegboard.upstream.http.client import HttpClient
from pegboard.upstream.http.event_stream import Event
from pegboard.upstream.http.pool import HttpPool
from pegboard.upstream.messages.channel import Exchanges, Receive
from pegboard.upstream.messages.failures import UNREADABLE, FailedError, Failure, ResumableError
from pegboard.upstream.messages.jsonrpc import (
    Message,
    ServerRpcError,
    encode,
    read_large_message,
    result_in,
)
from pegboard.upstream.messages.response_limits import RESPONSES, Pace

__all__ = ["StreamableHttpChannel", "streamable_http_channel"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_SHORTEST_PAUSE, _FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0, 60.0
_MOST_FAILURES = 2


@asynccontextmanager
async def streamable_http_channel(
    config: ServerConfig, pool: HttpPool, *, receive: Receive
) -> AsyncGenerator["StreamableHttpChannel"]:
    """Open streamable HTTP to a server; ``receive`` gets what belongs to no request.

    Raises:
        ConfigError: when a header or a TLS file of the server cannot be used.
    """
    async with pool.client_for(config) as client, anyio.create_task_group() as group:
        channel = StreamableHttpChannel(config, client, receive, group.start_soon)
        try:
            yield channel
        finally:
            channel.close()
            group.cancel_scope.cancel()
            await client.delete()


class StreamableHttpChannel:
    """Sends each message as one exchange; notices of a session come over a stream of their own."""

    cancels_by_closing: bool = True

    def __init__(
        self,
        config: ServerConfig,
        client: HttpClient,
        receive: Receive,
        start_soon: Callable[..., object],
    ) -> None:
        self.set_headers: Callable[[Mapping[str, str]], None] | None = client.set_headers
        self._server = config.name
        self._most_values = config.max_response_values
        self._pace = Pace()
        self._client = client
        self._receive = receive
        self._start_soon = start_soon
        self._exchanges = Exchanges()

    @property
    def keeps_session(self) -> bool:
        """True when the server has opened a session."""
        return self._client.session_id is not None

    async def request(
        self, message: Mapping[str, Any], headers: Mapping[str, str], receive: Receive
    ) -> dict[str, Any]:
        """Send a request and return its result."""
        body = encode(message, server=self._server)
        return await self._exchanges.run(lambda: self._exchange(body, headers, message, receive))

    async def send(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Send a notification, or the response to a request of the server."""
        body = encode(message, server=self._server)
        response = await self._client.post(body, headers)
        response.release()

    async def resume(self, number: int | str, last_event: str, receive: Receive) -> dict[str, Any]:
        """Return the result of a request whose stream ended too soon.

        Raises:
            ResumableError: when this stream ended too soon as well.
            ServerRpcError: when the server responds with an error.
            FailedError: when the server does not resume it: the response is lost.
        """

        async def resumed() -> dict[str, Any]:
            response = await self._client.get({"last-event-id": last_event})
            return await self._streamed(response, number, receive, last_event=last_event)

        try:
            return await self._exchanges.run(resumed)
        except ResumableError:
            raise
        except FailedError as error:
            if error.failure.kind in ("not_sent", "lost", "busy"):
                # The server may be back soon.
                raise ResumableError(number, last_event, _FIRST_PAUSE) from error
            # Whatever the server says to this: the request itself was sent.
            raise FailedError(msgspec.structs.replace(error.failure, kind="lost")) from error

    def agree_on(self, version: str) -> None:
        """Tell the server the version of the handshake era with every message from now on."""
        self._client.session_headers = {"mcp-protocol-version": version}

    def listen(self) -> None:
        """Open the stream over which a server of the handshake era sends without being asked."""
        if self.keeps_session:
            self._start_soon(self._listen)

    def close(self) -> None:
        """End all running requests, which may have run."""
        self._exchanges.close()

    async def _exchange(
        self,
        body: bytes,
        headers: Mapping[str, str],
        message: Mapping[str, Any],
        receive: Receive,
    ) -> dict[str, Any]:
        client = self._client
        response = await client.post(body, headers)
        if message["method"] == "initialize":
            client.session_id = response.headers.get("mcp-session-id")
        kind = _kind_of(response)
        if kind == "text/event-stream" and response.status != 202:
            return await self._streamed(response, message["id"], receive)
        share = RESPONSES.share(self._server)
        try:
            data = await client.whole_body(response, share)
            if kind == "application/json" and response.status != 202:
                return await self._result(data, message["id"])
        finally:
            share.close()
        problem = f"Unexpected content type: {kind}"
        if response.status == 202:
            problem = "It accepts a request without a response (HTTP 202)"
        raise FailedError(Failure(kind="not_mcp", message=problem))

    async def _result(self, data: bytes, number: object) -> dict[str, Any]:
        message = await read_large_message(data, self._most_values)
        if message is None or message.method is not None:
            raise FailedError(UNREADABLE)
        # An error may come without an id, if the server could not read the id.
        if message.number not in (number, None):
            words = "The server responded to another request instead."
            raise FailedError(Failure(kind="lost", message=words))
        return await result_in(message, data)

    async def _streamed(
        self,
        response: aiohttp.ClientResponse,
        number: int | str,
        receive: Receive,
        *,
        last_event: str | None = None,
    ) -> dict[str, Any]:
        """Read the result from a stream of events."""
        last = Event("", b"", last_event)
        problem = FailedError(Failure(kind="lost", message="SSE stream ended without a response"))
        try:
            async with aclosing(self._client.events(response)) as events:
                async for event in events:
                    last = msgspec.structs.replace(
                        event, id=event.id or last.id, retry=event.retry or last.retry
                    )
                    if event.kind != "message" or not event.data:
                        continue
                    message = await read_large_message(event.data, self._most_values)
                    if message is None:
                        # The response may follow.
                        problem = FailedError(UNREADABLE)
                        await self._slow_down(event.data)
                        continue
                    result = await self._heard(message, event.data, number, receive)
                    if result is not None:
                        self._client.leave(response)
                        return result
        except FailedError as error:
            if error.failure.kind != "lost":
                response.close()
                raise
            problem = error
        except BaseException:
            response.close()
            raise
        response.close()
        # Only the handshake era can resume a stream.
        if last.id is None or not self._client.session_headers or problem.failure is UNREADABLE:
            raise problem
        pause = _FIRST_PAUSE if last.retry is None else last.retry / 1000
        raise ResumableError(number, last.id, min(pause, _LONGEST_PAUSE)) from problem

    async def _heard(
        self, message: Message, data: bytes, number: int | str, receive: Receive
    ) -> dict[str, Any] | None:
        """Return the result in a message; ``None`` if the message is something else."""
        if message.method is not None:
            told = receive(message)
            if told is not None:
                # The server waits meanwhile, once the buffers of the connection are full.
                await told
            # A request starts a task.
            await self._slow_down(data, units=1 if message.id is None else 5)
            return None
        if message.number not in (number, None):
            # The response to our request may follow.
            await self._slow_down(data)
            return None
        return await result_in(message, data)

    async def _slow_down(self, data: bytes, units: int = 1) -> None:
        """Wait before the next message, if the server sends too many that are no responses."""
        if pause := self._pace.spend(units + len(data) / 512):
            await anyio.sleep(pause)

    async def _listen(self) -> None:
        """Receive what the server sends without being asked, for as long as it offers that."""
        last = Event("", b"")
        failures = 0
        while failures < _MOST_FAILURES:
            headers = {} if last.id is None else {"last-event-id": last.id}
            try:
                response = await self._client.get(headers)
                try:
                    if _kind_of(response) != "text/event-stream":
                        return
                    failures = 0
                    async with aclosing(self._client.events(response)) as events:
                        async for event in events:
                            last = msgspec.structs.replace(
                                event, id=event.id or last.id, retry=event.retry or last.retry
                            )
                            await self._hear(event)
                finally:
                    response.close()
            except (FailedError, ServerRpcError) as error:
                # A broken stream is opened again for ever, a refused one is not.
                is_refused = not (isinstance(error, FailedError) and error.failure.kind == "lost")
                failures += is_refused
                context = {"server": self._server, "reason": str(error)}
                logger.debug("stream_broke: server %r: %s", self._server, error, extra=context)
            except Exception:
                context = {"server": self._server}
                logger.exception("stream_failed: server %r", self._server, extra=context)
                return
            pause = _FIRST_PAUSE if last.retry is None else last.retry / 1000
            await anyio.sleep(max(_SHORTEST_PAUSE, min(pause, _LONGEST_PAUSE)))

    async def _hear(self, event: Event) -> None:
        if event.kind != "message" or not event.data:
            return
        try:
            message = await read_large_message(event.data, self._most_values)
        except FailedError as error:
            logger.debug("message_dropped: server %r: %s", self._server, error)
            message = None
        if message is not None and message.method is not None:
            self._receive(message)
        await self._slow_down(event.data, units=5)


def _kind_of(response: aiohttp.ClientResponse) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()
