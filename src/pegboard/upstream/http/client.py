"""HTTP transports to servers (streamable HTTP and SSE), on a shared connection pool."""

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
from pegboard.upstream.messages.jsonrpc import mended

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
"""The most bytes of one response, or of one event of a stream."""
_SECONDS_TO_CLOSE = 2.0
_LISTEN = "subscriptions/listen"
_LONGEST_SILENCE = 3600.0
_SHORTEST_SECRET = 6
_HARMLESS = frozenset({"accept", "accept-encoding", "connection", "user-agent"})


OnLogin = Callable[[str, str], object]
"""Receives the name of a server and the URL of its login page."""
StartSoon = Callable[[Callable[[], Awaitable[object]]], object]
"""Starts work in a background task, which belongs to no call."""


class HttpPool(AsyncContextManagerMixin):
    """The HTTP connections of one hub, which its clients share.

    It opens nothing before it is used, so it may be made anywhere; ``close`` it in the event loop
    that used it, or use it as a context manager.
    """

    def __init__(
        self,
        *,
        on_login: OnLogin | None = None,
        tenant: str = "",
        start_soon: StartSoon | None = None,
        token_storage: Any = None,
    ) -> None:
        self.on_login: OnLogin | None = on_login
        """Shows the login page to a person, instead of opening a browser."""
        self.tenant: str = tenant
        """The tenant of the logins."""
        self.start_soon: StartSoon | None = start_soon
        """Starts a login that outlives its call; ``None`` if logins end with their call."""
        self.token_storage: Any = token_storage
        """Where tokens are, instead of where the configuration of a server says."""
        self.logins: dict[object, httpx2.Auth] = {}
        """By server and login: connections to one server share its tokens."""
        self.wires: WirePool = WirePool()
        """Plain connections for the fast path."""
        self._connections = SharedConnections()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator["HttpPool"]:
        try:
            yield self
        finally:
            await self.close()

    async def close(self) -> None:
        """Close all connections; later requests fail."""
        self.wires.close()
        with anyio.move_on_after(_SECONDS_TO_CLOSE, shield=True):
            await self._connections.close()

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request without the headers and credentials of a server.

        Raises:
            HTTPError: when there is no response.
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

    In the SDK, an exception of ``send`` ends the whole connection, so ``send`` does not raise: it
    returns a JSON-RPC error that says what happened (see ``failures``).
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
        # A little more than any caller waits, so that the timeout of the caller comes first.
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
            ConfigError: when a header is invalid, or belongs to the protocol.
        """
        self.headers = {**self._own_headers, **checked_headers(headers)}

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and return its response, or a JSON-RPC error for its failure."""
        options["stream"] = True
        if request.method == "DELETE":
            return await self._delete_session(request, options)
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
            # The caller has a limit of its own, unless the server waits for a person.
            longest = None if request.headers.get("mcp-method") == _LISTEN else _LONGEST_SILENCE
            set_read_limit(request, longest)
            return with_body(answer, MendedEvents(answer, largest=LARGEST_ANSWER))
        body = await whole_body(answer, limit=LARGEST_ANSWER)
        if body is None:
            return self._failed(
                request,
                Failure(
                    kind="http_error",
                    message=f"The response exceeds {LARGEST_ANSWER >> 20} MiB. The call has run.",
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
            # It may bring responses of requests whose own stream was cut; SSE reads them itself.
            if self._config.transport != "sse":
                return with_body(answer, MendedEvents(answer, largest=LARGEST_ANSWER))
        return answer

    async def _delete_session(
        self, request: httpx2.Request, options: dict[str, Any]
    ) -> httpx2.Response:
        # Shielded, because a session is mostly closed by cancelling its task.
        with anyio.move_on_after(_SECONDS_TO_CLOSE, shield=True):
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
        """Return a function that redacts all secrets of this server, and those of a request."""
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
        auth: What obtains tokens, for instance an ``oauth_provider``.
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
        auth: What obtains tokens, for instance an ``oauth_provider``.
        client: One from ``pool.client_for``, to swap its headers; closed with the transport.

    Raises:
        MCPError: when the stream cannot be opened; ``failure_of`` its error says why.
    """
    async with (
        client or pool.client_for(config, auth) as http_client,
        sse_streams(config, http_client, on_lost=on_lost, largest=LARGEST_ANSWER) as streams,
    ):
        yield streams
