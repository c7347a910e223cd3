"""Transports to servers behind HTTP, on connections that all of them share."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from anyio import AsyncContextManagerMixin
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from pegboard.config.servers import HIDDEN, ServerConfig
from pegboard.errors import ServerAuthenticationError
from pegboard.upstream.errors.failures import (
    Failure,
    failure_of_answer,
    failure_of_exception,
)
from pegboard.upstream.http.headers import checked_headers, configured_headers
from pegboard.upstream.http.http1_connection import WirePool
from pegboard.upstream.http.response_bodies import (
    EndsQuietly,
    MendedEvents,
    is_event_stream,
    set_read_limit,
    start_of_body,
    whole_body,
    with_body,
)
from pegboard.upstream.http.shared_connections import SharedConnections
from pegboard.upstream.http.sse_transport import sse_streams
from pegboard.upstream.messages.messages import mended

__all__ = [
    "LARGEST_ANSWER",
    "HttpPool",
    "OnLogin",
    "StartSoon",
    "UpstreamHttpClient",
    "http_transport",
    "sse_transport",
]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

LARGEST_ANSWER = 64 * 1024 * 1024
"""How many bytes one answer, or one event of a stream, may have."""
_SECONDS_FOR_GOODBYE = 2.0
_LISTEN = "subscriptions/listen"
_LONGEST_SILENCE = 3600.0
_SHORTEST_SECRET = 6
_HARMLESS = frozenset({"accept", "accept-encoding", "connection", "user-agent"})


OnLogin = Callable[[str, str], object]
"""Receives the name of a server and the address of its login page."""
StartSoon = Callable[[Callable[[], Awaitable[object]]], object]
"""Starts work in a task that is nobody's call."""


class HttpPool(AsyncContextManagerMixin):
    """The HTTP connections of one hub; clients come and go, connections stay.

    It opens nothing before it is used, so it may be made anywhere; ``close`` it in the event loop
    that used it, or use it as a context manager.
    """

    def __init__(
        self,
        *,
        on_login: OnLogin | None = None,
        tenant: str = "",
        start_soon: StartSoon | None = None,
    ) -> None:
        self.on_login: OnLogin | None = on_login
        """Shows a person where to log in, instead of opening a browser."""
        self.tenant: str = tenant
        """Whose logins these are."""
        self.start_soon: StartSoon | None = start_soon
        """Starts what goes on when the call that wanted it is over; ``None`` if nothing may."""
        self.logins: dict[object, httpx2.Auth] = {}
        """By server and login: all connections to one share its tokens, and renew them once."""
        self.wires: WirePool = WirePool()
        """Connections for exchanges that need none of what the others can do."""
        self._connections = SharedConnections()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator["HttpPool"]:
        try:
            yield self
        finally:
            await self.close()

    async def close(self) -> None:
        """Close all connections; whatever is sent afterwards is not sent."""
        self.wires.close()
        with anyio.move_on_after(_SECONDS_FOR_GOODBYE, shield=True):
            await self._connections.close()

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request that belongs to no server: with no more headers than it has.

        Raises:
            HTTPError: when there is no answer.
        """
        async with httpx2.AsyncClient(transport=self._connections) as client:
            return await client.send(request)

    def client_for(
        self, config: ServerConfig, auth: httpx2.Auth | None = None
    ) -> "UpstreamHttpClient":
        """Return a client with the headers, credentials and limits of one server.

        Raises:
            ConfigError: when a header of the server cannot be sent.
        """
        return UpstreamHttpClient(config, transport=self._connections, auth=auth)


class UpstreamHttpClient(httpx2.AsyncClient):
    """An HTTP client for one server, on which a failed request fails alone.

    The SDK lets whatever ``send`` raises end the whole connection, so ``send`` does not raise: it
    answers with a JSON-RPC error that says what happened (see ``failures``).
    """

    session_id: str | None = None
    """The session that the server has opened for this client, if it keeps sessions."""

    def __init__(
        self,
        config: ServerConfig,
        *,
        transport: httpx2.AsyncBaseTransport,
        auth: httpx2.Auth | None = None,
    ) -> None:
        limits = config.timeouts
        # A little more than anybody waits, so that the one who waits can say it.
        longest = 1.1 * max(limits.call, limits.list, limits.connect)
        super().__init__(
            auth=auth,
            transport=transport,
            timeout=httpx2.Timeout(longest, connect=limits.connect),
        )
        self._config = config
        self._own_headers = {**self.headers, **configured_headers(config)}
        self.headers = self._own_headers

    def __repr__(self) -> str:
        return f"<UpstreamHttpClient session={self.session_id is not None}>"

    def set_runtime_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, instead of any set before.

        Raises:
            ConfigError: when one of them is no legal header, or belongs to the protocol.
        """
        self.headers = {**self._own_headers, **checked_headers(headers)}

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and give its answer, or a JSON-RPC error made from what went wrong."""
        options["stream"] = True
        if request.method == "DELETE":
            return await self._say_goodbye(request, options)
        if request.method == "GET":
            return await self._open_stream(request, options)
        try:
            answer = await super().send(request, **options)
            return await self._checked(answer)
        except Exception as error:
            if not isinstance(error, httpx2.HTTPError | ServerAuthenticationError):
                name = self._config.name
                logger.exception("http_request_failed: server %r", name, extra={"server": name})
            return self._failed(request, failure_of_exception(error, request))

    async def _checked(self, answer: httpx2.Response) -> httpx2.Response:
        request = answer.request
        if answer.is_error:
            body = await start_of_body(answer)
            # Server-sent events carry the session in the address, see `sse`.
            had_session = "mcp-session-id" in request.headers or "in_session" in request.extensions
            redact = self._redact_for(request)
            failure = failure_of_answer(answer, body, had_session=had_session, redact=redact)
            if failure is not None:
                return self._failed(request, failure)
            return with_body(answer, body)
        self.session_id = answer.headers.get("mcp-session-id", self.session_id)
        if is_event_stream(answer):
            # Whoever waits has a limit, unless the server waits for a person itself.
            longest = None if request.headers.get("mcp-method") == _LISTEN else _LONGEST_SILENCE
            set_read_limit(request, longest)
            return with_body(answer, MendedEvents(answer, largest=LARGEST_ANSWER))
        body = await whole_body(answer, limit=LARGEST_ANSWER)
        if body is None:
            return self._failed(
                request,
                Failure(
                    kind="http_error",
                    message=f"The answer is larger than {LARGEST_ANSWER >> 20} MiB. It has run.",
                    status=answer.status_code,
                ),
            )
        return with_body(answer, mended(body))

    async def _open_stream(
        self, request: httpx2.Request, options: dict[str, Any]
    ) -> httpx2.Response:
        answer = await super().send(request, **options)
        if answer.is_success and is_event_stream(answer):
            set_read_limit(request, None)
            answer.stream = EndsQuietly(answer.stream)
            # Here too may be answers, of requests whose own stream was cut; SSE reads them itself.
            if self._config.transport != "sse":
                return with_body(answer, MendedEvents(answer, largest=LARGEST_ANSWER))
        return answer

    async def _say_goodbye(
        self, request: httpx2.Request, options: dict[str, Any]
    ) -> httpx2.Response:
        # Shielded, because a session is mostly closed by cancelling its owner.
        with anyio.move_on_after(_SECONDS_FOR_GOODBYE, shield=True):
            try:
                answer = await super().send(request, **options)
                await answer.aclose()
            except Exception as error:  # noqa: BLE001 - the session is over either way
                name, reason = self._config.name, type(error).__name__
                context = {"server": name, "reason": reason}
                logger.debug("goodbye_failed: server %r: %s", name, reason, extra=context)
        return httpx2.Response(204, request=request)

    def _failed(self, request: httpx2.Request, failure: Failure) -> httpx2.Response:
        return failure.redacted(self._redact_for(request)).answer(request)

    def _redact_for(self, request: httpx2.Request) -> Callable[[str], str]:
        return self.redactor(request.headers.get("authorization", ""))

    def redactor(self, authorization: str = "") -> Callable[[str], str]:
        """Return what hides all secrets of this server, those of a request included."""
        # Tokens and headers may be newer than the configuration.
        sent = [authorization.rpartition(" ")[2]]
        sent += [self.headers[name] for name in self.headers if name not in _HARMLESS]

        def redact(text: str) -> str:
            for secret in sorted(sent, key=len, reverse=True):
                if len(secret) >= _SHORTEST_SECRET:
                    text = text.replace(secret, HIDDEN)
            return self._config.redact(text)

        return redact


@asynccontextmanager
async def http_transport(
    config: ServerConfig,
    pool: HttpPool,
    *,
    auth: httpx2.Auth | None = None,
    client: UpstreamHttpClient | None = None,
) -> AsyncGenerator[TransportStreams]:
    """Open streamable HTTP to a server, as the pair of streams that ``mcp.Client`` takes.

    Args:
        config: The server.
        pool: The connections to use.
        auth: How to obtain tokens, for instance an ``oauth_provider``.
        client: One from ``pool.client_for``, to watch its session or swap its headers; it is
            closed with the transport.
    """
    async with (
        client or pool.client_for(config, auth) as http_client,
        streamable_http_client(
            config.url or "", http_client=http_client, max_sse_event_size=LARGEST_ANSWER
        ) as streams,
    ):
        yield streams


@asynccontextmanager
async def sse_transport(
    config: ServerConfig,
    pool: HttpPool,
    *,
    on_lost: Callable[[str], None],
    auth: httpx2.Auth | None = None,
    client: UpstreamHttpClient | None = None,
) -> AsyncGenerator[TransportStreams]:
    """Open HTTP with server-sent events to a server, as the pair of streams ``mcp.Client`` takes.

    Args:
        config: The server.
        pool: The connections to use.
        on_lost: Called once with the reason when the server ends the stream.
        auth: How to obtain tokens, for instance an ``oauth_provider``.
        client: One from ``pool.client_for``, to swap its headers; closed with the transport.

    Raises:
        MCPError: when the stream cannot be opened; ``failure_of`` its error says why.
    """
    async with (
        client or pool.client_for(config, auth) as http_client,
        sse_streams(config, http_client, on_lost=on_lost, largest=LARGEST_ANSWER) as streams,
    ):
        yield streams
