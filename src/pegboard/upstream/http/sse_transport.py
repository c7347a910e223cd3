"""The SSE transport to a server: HTTP with server-sent events, from protocol 2024-11-05."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import anyio
import httpx2
import msgspec
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import MCPError
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from pegboard.config.servers import ServerConfig
from pegboard.errors import ServerAuthenticationError
from pegboard.upstream.errors.failures import (
    Failure,
    failure_of_answer,
    failure_of_exception,
)
from pegboard.upstream.http.response_bodies import start_of_body
from pegboard.upstream.messages.jsonrpc import read_message

__all__ = ["sse_streams"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_MOST_REDIRECTS = 5
_SECONDS_TO_CLOSE = 2.0

Received = SessionMessage | Exception


@asynccontextmanager
async def sse_streams(
    config: ServerConfig,
    client: httpx2.AsyncClient,
    *,
    on_lost: Callable[[str], None],
    largest: int,
) -> AsyncGenerator[TransportStreams]:
    """Open the event stream and give the pair of streams that ``mcp.Client`` takes.

    The SDK's own client posts one message at a time, stops for good after one that fails, and
    takes no event above 1 MiB.

    Raises:
        MCPError: when the stream cannot be opened; ``failure_of`` its error says why.
    """
    answer = await _open(client, config)
    events = aiter(httpx2.EventSource(answer, max_event_size=largest))
    try:
        endpoint = await _endpoint(events, answer.request.url, config)
        to_session, incoming = anyio.create_memory_object_stream[Received]()
        outgoing, from_session = anyio.create_memory_object_stream[SessionMessage]()
        async with (
            to_session,
            incoming,
            outgoing,
            from_session,
            anyio.create_task_group() as group,
        ):
            group.start_soon(_read, events, to_session, on_lost)
            group.start_soon(_write, _Endpoint(client, endpoint, to_session), from_session, group)
            try:
                yield incoming, outgoing
            finally:
                group.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(_SECONDS_TO_CLOSE, shield=True):
            await answer.aclose()


class _Endpoint:
    """The URL for our messages; an error response to a POST goes to the session."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        url: httpx2.URL,
        to_session: MemoryObjectSendStream[Received],
    ) -> None:
        self._client = client
        self._url = url
        self._to_session = to_session

    async def post(self, message: JSONRPCMessage) -> None:
        request = self._client.build_request(
            "POST",
            self._url,
            json=message.model_dump(by_alias=True, mode="json", exclude_unset=True),
            headers={"accept": "application/json"},
            extensions={"in_session": True},
        )
        answer = await _send_within_origin(self._client, request)
        if answer.is_success or not isinstance(message, JSONRPCRequest):
            return
        reply = JSONRPCError(jsonrpc="2.0", id=message.id, error=await _error_in(answer))
        try:
            await self._to_session.send(SessionMessage(reply))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("session_closed_before_its_error")


async def _open(client: httpx2.AsyncClient, config: ServerConfig) -> httpx2.Response:
    request = client.build_request(
        "GET",
        config.url or "",
        headers={"accept": "text/event-stream", "cache-control": "no-store"},
    )
    try:
        answer = await _send_within_origin(client, request)
    except (httpx2.HTTPError, ServerAuthenticationError) as error:
        failure = failure_of_exception(error, request)
    else:
        if answer.is_success:
            return answer
        body = await start_of_body(answer)
        failure = failure_of_answer(answer, body, had_session=False, redact=config.redact)
    raise _refused(failure, config)


async def _endpoint(
    events: AsyncIterator[httpx2.ServerSentEvent], base: httpx2.URL, config: ServerConfig
) -> httpx2.URL:
    problem = "The server ended the stream before it named its endpoint."
    try:
        with anyio.fail_after(config.timeouts.connect):
            async for event in events:
                if event.event == "endpoint":
                    endpoint = base.join(event.data)
                    if _origin(endpoint) == _origin(base):
                        return endpoint
                    problem = "The server named an endpoint on another origin."
                    break
    except TimeoutError:
        problem = f"The server named no endpoint within {config.timeouts.connect:g} s."
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        problem = f"The server sent no events: {error}"
    raise _refused(Failure(kind="not_sent", message=problem), config)


async def _read(
    events: AsyncIterator[httpx2.ServerSentEvent],
    to_session: MemoryObjectSendStream[Received],
    on_lost: Callable[[str], None],
) -> None:
    reason = "The server ended the stream."
    async with to_session:
        try:
            async for event in events:
                if event.event == "message" and event.data:
                    await to_session.send(_message(event.data))
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
        except anyio.BrokenResourceError:
            return
        on_lost(reason)


async def _write(
    endpoint: _Endpoint, from_session: MemoryObjectReceiveStream[SessionMessage], group: TaskGroup
) -> None:
    async for outgoing in from_session:
        # A slow response must not delay other requests; all else is sent in order.
        if isinstance(outgoing.message, JSONRPCRequest):
            group.start_soon(endpoint.post, outgoing.message)
        else:
            await endpoint.post(outgoing.message)


async def _send_within_origin(
    client: httpx2.AsyncClient, request: httpx2.Request
) -> httpx2.Response:
    for redirects in count():
        answer = await client.send(request, stream=True, follow_redirects=False)
        following = answer.next_request
        if (
            following is None
            or redirects == _MOST_REDIRECTS
            or following.method != request.method
            or _origin(following.url) != _origin(request.url)
        ):
            return answer
        await answer.aclose()
        request = following
    raise AssertionError


def _message(text: str) -> Received:
    message = read_message(text.encode())
    return ValueError("not a message") if message is None else SessionMessage(message)


async def _error_in(answer: httpx2.Response) -> ErrorData:
    try:
        said = jsonrpc_message_adapter.validate_json(await answer.aread(), by_name=False)
    except ValidationError:
        said = None
    if isinstance(said, JSONRPCError):
        return said.error
    place = answer.headers.get("location", "")
    message = f"The server answered with HTTP {answer.status_code} {place}".strip() + "."
    return Failure(kind="http_error", message=message, status=answer.status_code).error


def _refused(failure: Failure | None, config: ServerConfig) -> MCPError:
    if failure is None:
        failure = Failure(kind="http_error", message="The server refused to open the stream.")
    elif failure.kind == "lost":
        # Only the stream was asked for, nothing that could run.
        failure = msgspec.structs.replace(failure, kind="not_sent")
    error = failure.redacted(config.redact).error
    return MCPError(error.code, error.message, error.data)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
