"""The SSE transport to a server: HTTP with server-sent events, from protocol 2024-11-05."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urljoin

import aiohttp
import anyio
import msgspec
from anyio.abc import TaskGroup

from pegboard.config.servers import ServerConfig
from pegboard.upstream.http.client import HttpClient, origin_of
from pegboard.upstream.http.event_stream import Event
from pegboard.upstream.http.pool import HttpPool
from pegboard.upstream.messages.channel import DuplexChannel, Receive
from pegboard.upstream.messages.failures import FailedError, Failure
from pegboard.upstream.messages.jsonrpc import ServerRpcError

__all__ = ["sse_channel"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_SECONDS_TO_END = 5.0


@asynccontextmanager
async def sse_channel(
    config: ServerConfig, pool: HttpPool, *, receive: Receive, on_lost: Callable[[str], None]
) -> AsyncGenerator[DuplexChannel]:
    """Open the event stream of a server, and post messages to the endpoint that it names.

    ``on_lost`` is called once, with the reason, when the server ends the stream.

    Raises:
        ConfigError: when a header or a TLS file of the server cannot be used.
        FailedError: when the stream cannot be opened.
    """
    async with pool.client_for(config) as client:
        response = await _open(client, config)
        try:
            events = aiter(client.events(response))
            endpoint = await _endpoint(events, str(response.url), config)
            async with anyio.create_task_group() as group:
                poster = _Poster(client, endpoint, group)
                channel = DuplexChannel(
                    config.name, poster.write, receive, most_values=config.max_response_values
                )
                channel.set_headers = client.set_headers
                poster.fail, channel.done = channel.fail, poster.done
                group.start_soon(_read, events, channel, on_lost)
                try:
                    yield channel
                finally:
                    channel.close()
                    group.cancel_scope.cancel()
        finally:
            response.close()


class _Poster:
    """Posts messages to the endpoint of the server."""

    def __init__(self, client: HttpClient, endpoint: str, group: TaskGroup) -> None:
        self.fail: Callable[[int | str, Exception], None] = lambda _, __: None
        self._client = client
        self._endpoint = endpoint
        self._group = group
        self._posts: dict[int | str, anyio.CancelScope] = {}

    async def write(self, line: bytes, number: int | str | None) -> None:
        # The response may come over the stream before the server answers the POST.
        if number is None:
            await self._post(line)
        else:
            scope = self._posts[number] = anyio.CancelScope()
            self._group.start_soon(self._post_request, line, number, scope)

    def done(self, number: int | str) -> None:
        """Wait only a little longer for the answer to the POST of a request that is over."""
        scope = self._posts.get(number)
        if scope is not None:
            scope.deadline = anyio.current_time() + _SECONDS_TO_END

    async def _post_request(self, line: bytes, number: int | str, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await self._post(line)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this request alone
            self.fail(number, error)
        finally:
            del self._posts[number]

    async def _post(self, line: bytes) -> None:
        response = await self._client.post(line, {}, url=self._endpoint)
        response.release()


async def _open(client: HttpClient, config: ServerConfig) -> aiohttp.ClientResponse:
    try:
        response = await client.get({"cache-control": "no-store"})
    except ServerRpcError as error:
        raise FailedError(
            Failure(kind="http_error", message=f"The server answered with an error: {error}.")
        ) from error
    except FailedError as error:
        if error.failure.kind not in ("lost", "session_lost"):
            raise
        # Only the stream was asked for, nothing that could run.
        raise FailedError(msgspec.structs.replace(error.failure, kind="not_sent")) from error
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return response
    response.close()
    words = config.redact(f"Unexpected content type: {kind}")
    raise FailedError(Failure(kind="not_mcp", message=words))


async def _endpoint(events: AsyncIterator[Event], base: str, config: ServerConfig) -> str:
    problem = "The server ended the stream before it named its endpoint."
    try:
        with anyio.fail_after(config.timeouts.connect):
            async for event in events:
                if event.kind == "endpoint":
                    endpoint = urljoin(base, event.data.decode("utf-8", "replace"))
                    if origin_of(endpoint) == origin_of(base):
                        return endpoint
                    problem = "The server named an endpoint on another origin."
                    break
    except TimeoutError:
        problem = f"The server named no endpoint within {config.timeouts.connect:g} s."
    except (FailedError, ValueError) as error:
        problem = f"The server sent no events: {error}"
    raise FailedError(Failure(kind="not_sent", message=config.redact(problem)))


async def _read(
    events: AsyncIterator[Event], channel: DuplexChannel, on_lost: Callable[[str], None]
) -> None:
    reason = "The server ended the stream."
    try:
        async for event in events:
            if event.kind == "message" and event.data and not await channel.take_any(event.data):
                logger.debug("not_a_message: an event of %d bytes", len(event.data))
    except FailedError as error:
        if not isinstance(error.__cause__, aiohttp.ClientPayloadError):
            reason = error.failure.message
    on_lost(reason)
    channel.close()
