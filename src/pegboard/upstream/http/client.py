"""HttpClient: HTTP requests to one server, with its headers, credentials, TLS and limits."""

import asyncio  # noqa: TID251 - the HTTP library is made for asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import aiohttp
import anyio

from pegboard.config.servers import HIDDEN, ServerConfig
from pegboard.upstream.http.connection_errors import BEFORE_SENDING, explain_connection_error
from pegboard.upstream.http.event_stream import Event, EventReader, EventTooLargeError
from pegboard.upstream.http.headers import checked_headers, configured_headers
from pegboard.upstream.http.request_body import RequestBody
from pegboard.upstream.http.response_body import Refusal, chunks_of, refusal_in
from pegboard.upstream.http.tls import tls_fault
from pegboard.upstream.messages.failures import (
    UNREADABLE,
    FailedError,
    Failure,
    failure_of_response,
)
from pegboard.upstream.messages.jsonrpc import ServerRpcError, read_message
from pegboard.upstream.messages.response_limits import LARGE, RESPONSES, Pace, Share
from pegboard.version import installed_version

__all__ = [
    "CLOSED",
    "LARGEST_RESPONSE",
    "HttpClient",
    "TlsChangedError",
    "origin_of",
    "without_credentials",
]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

LARGEST_RESPONSE = 64 * 1024 * 1024
"""The most bytes of one response, or of one event of a stream."""
_SECONDS_TO_CLOSE = 2.0
_SECONDS_TO_END = 1.0
"""How long a stream may take to end once its response has come; then its connection is closed."""
_MOST_REDIRECTS = 5
_PART = 16 * 1024
"""The bytes of a stream that are parsed at once."""
_LINES_PER_UNIT = 4
"""A line of a stream takes a quarter of the time of a notification."""
_SHORTEST_SECRET = 6
_AGENT = f"pegboard/{installed_version()}"
_HARMLESS = frozenset({"accept", "accept-encoding", "content-type", "user-agent"})
_MOST_TLS_CHANGES = 3
_TLS_CHANGES = Failure(kind="not_sent", message="The files of its `tls` change all the time.")
CLOSED = Failure(kind="not_sent", message="The hub is closed.")


class TlsChangedError(Exception):
    """Raised instead of using a new connection when the files of TLS have changed meanwhile."""

    def __init__(self, newest: ssl.SSLContext) -> None:
        super().__init__()
        self.newest = newest


class HttpClient:
    """Sends the requests of one session; each failure is a `FailedError` of its own."""

    session_id: str | None = None
    """The session that the server has opened for this client, if it keeps sessions."""

    def __init__(
        self,
        config: ServerConfig,
        session: aiohttp.ClientSession,
        *,
        tls: ssl.SSLContext | None,
        proxy: str | None,
        login: Any,
    ) -> None:
        url, own = without_credentials(config.url or "")
        self.url: str = url
        self._config = config
        self._session = session
        self._login = login
        self._has_answered = False
        self._left: set[aiohttp.ClientResponse] = set()
        """Streams that are read no more, and may not have ended yet."""
        self._options: dict[str, Any] = {"allow_redirects": False}
        if tls is not None:
            self._options["ssl"] = tls
        if proxy is not None:
            self._options["proxy"], credentials = without_credentials(proxy)
            if credentials:
                # The library makes it a header of the proxy, for each kind of request.
                self._options["proxy_headers"] = credentials
        self._own_headers = {
            "user-agent": _AGENT,
            **own,
            **configured_headers(config),
            "accept": "application/json, text/event-stream",
            "accept-encoding": "identity",
            "content-type": "application/json",
        }
        self._headers = self._own_headers
        self.session_headers: Mapping[str, str] = {}
        """The headers of every message, once the protocol version is agreed."""

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, instead of any set before.

        Raises:
            ConfigError: when a header is invalid, or belongs to the protocol.
        """
        self._headers = {**self._own_headers, **checked_headers(headers)}

    async def post(
        self, body: bytes, headers: Mapping[str, str], *, url: str = ""
    ) -> aiohttp.ClientResponse:
        """Send a message and return the response, whose body is still to be read.

        Raises:
            FailedError: when there is no response, or one with an error status.
            ServerRpcError: when the response has an error status, and a JSON-RPC error for a body.
        """
        sent = {**self._headers, **self.session_headers, **headers}
        if self.session_id is not None:
            sent["mcp-session-id"] = self.session_id
        response = await self._send("POST", url or self.url, sent, body)
        # Server-sent events have the session in the address of the endpoint.
        return await self._checked(response, had_session=bool(url or self.session_id))

    async def get(self, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        """Open a stream of events.

        Raises:
            FailedError: when there is no response, or one with an error status.
            ServerRpcError: when the response has an error status, and a JSON-RPC error for a body.
        """
        sent = {**self._headers, "accept": "text/event-stream", **self.session_headers, **headers}
        del sent["content-type"]
        if self.session_id is not None:
            sent["mcp-session-id"] = self.session_id
        response = await self._send("GET", self.url, sent)
        return await self._checked(response, had_session=self.session_id is not None)

    async def delete(self) -> None:
        """Tell the server that the session is over; it need not answer."""
        if self.session_id is None:
            return
        sent = {**self._headers, **self.session_headers, "mcp-session-id": self.session_id}
        # Shielded, because a session is mostly closed by cancelling its task.
        with anyio.move_on_after(_SECONDS_TO_CLOSE, shield=True):
            try:
                response = await self._send("DELETE", self.url, sent)
                if isinstance(response, aiohttp.ClientResponse):
                    response.close()
            except FailedError as error:
                name, reason = self._config.name, error.failure.message
                context = {"server": name, "reason": reason}
                logger.debug("goodbye_failed: server %r: %s", name, reason, extra=context)

    async def whole_body(
        self, response: aiohttp.ClientResponse, share: Share | None = None
    ) -> bytes:
        """Return the body of a response, once its share of the budget is large enough.

        Raises:
            FailedError: when it is too large, or the connection breaks.
        """
        length = response.content_length
        try:
            if length is not None and length <= LARGEST_RESPONSE:
                if share is not None and length > LARGE:
                    await share.grow(length)
                body = await response.read()
            else:
                pieces = bytearray()
                async for piece in chunks_of(response):
                    pieces += piece
                    if len(pieces) > LARGEST_RESPONSE:
                        break
                    if share is not None:
                        await share.grow(len(pieces))
                body = bytes(pieces)
        except (aiohttp.ClientError, OSError) as error:
            raise self._broke(error, sent=True, answered=True) from error
        finally:
            # At its end its connection is free for the next request.
            if not response.closed:
                response.close()
        if len(body) > LARGEST_RESPONSE or (length or 0) > LARGEST_RESPONSE:
            message = f"The response exceeds {LARGEST_RESPONSE >> 20} MiB. The call has run."
            raise FailedError(Failure(kind="http_error", message=message, status=response.status))
        return body

    async def pieces(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
        """Yield the body of a stream as it comes.

        Raises:
            FailedError: when the connection breaks.
        """
        try:
            async for piece in chunks_of(response):
                yield piece
        except aiohttp.ClientPayloadError:
            # The connection was closed before the stream was: its reader sees what is missing.
            return
        except (aiohttp.ClientError, OSError) as error:
            raise self._broke(error, sent=True, answered=True) from error

    async def events(self, response: aiohttp.ClientResponse) -> AsyncGenerator[Event]:
        """Yield the events of a stream as they come.

        Raises:
            FailedError: when the connection breaks, or an event is too large.
        """
        reader, pace = EventReader(largest=LARGEST_RESPONSE), Pace()
        share = RESPONSES.share(self._config.name)
        try:
            async for piece in self.pieces(response):
                for start in range(0, len(piece), _PART):
                    part = piece[start : start + _PART]
                    try:
                        events = reader.feed(part)
                    except EventTooLargeError:
                        words = "SSE stream failed: an event is too large"
                        raise FailedError(Failure(kind="lost", message=words)) from None
                    for event in events:
                        yield event
                    if reader.held > LARGE:
                        await share.grow(reader.held)
                    else:
                        share.close()
                    lines = part.count(b"\n") + part.count(b"\r")
                    if pause := pace.spend(lines / _LINES_PER_UNIT):
                        await anyio.sleep(pause)
        finally:
            share.close()

    def leave(self, response: aiohttp.ClientResponse) -> None:
        """Read no more of a stream; its connection is kept if the stream ends soon."""
        if not response.closed:
            self._left.add(response)
            asyncio.get_running_loop().call_later(_SECONDS_TO_END, self._close, response)

    def close(self) -> None:
        """Close the streams that are read no more."""
        for response in tuple(self._left):
            self._close(response)

    def _close(self, response: aiohttp.ClientResponse) -> None:
        self._left.discard(response)
        response.close()

    async def _send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None
    ) -> aiohttp.ClientResponse | Refusal:
        """Send a request, log in if the server wants it, and follow redirects within the origin."""
        for redirects in range(_MOST_REDIRECTS + 1):
            if self._login is None:
                response = await self._exchange(method, url, headers, body=body)
            else:
                send = partial(self._exchange, method, url, body=body)
                response = await self._login.send(method, url, headers, body, send)
            if isinstance(response, Refusal) or not 300 <= response.status < 400:
                return response
            keeps_method = method == "GET" or response.status in (307, 308)
            response.close()
            try:
                location = urljoin(url, response.headers.get("location", url))
                stays = origin_of(location) == origin_of(url)
            except ValueError:
                location, stays = "an invalid address", False
            if redirects == _MOST_REDIRECTS or not (keeps_method and stays):
                raise self._failed(
                    Failure(
                        kind="not_mcp",
                        message=f"Redirect to {location} not followed",
                        status=response.status,
                    )
                )
            url = location
        raise AssertionError

    async def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], *, body: bytes | None
    ) -> aiohttp.ClientResponse:
        if self._session.closed:
            raise FailedError(CLOSED)
        payload = None if body is None else RequestBody(body)
        try:
            for _ in range(_MOST_TLS_CHANGES):
                try:
                    response = await self._session.request(
                        method, url, headers=headers, data=payload, **self._options
                    )
                    break
                except TlsChangedError as error:
                    self._options["ssl"] = error.newest
            else:
                raise FailedError(_TLS_CHANGES)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            sent = payload is None or payload.is_written
            raise self._broke(error, sent=sent, headers=headers) from error
        self._has_answered = True
        return response

    async def _checked(
        self, response: aiohttp.ClientResponse | Refusal, *, had_session: bool
    ) -> aiohttp.ClientResponse:
        if response.status < 400:
            assert isinstance(response, aiohttp.ClientResponse)
            # Only `identity` was asked for. To decompress is work that no size limits.
            coding = response.headers.get("content-encoding")
            if coding is None or coding.strip().lower() in ("identity", ""):
                return response
            response.close()
            words = (
                f"The server compressed its response ({coding[:40]!r}), which was not asked for: "
                "switch that off in the server or its proxy."
            )
            raise FailedError(Failure(kind="unreadable", message=words))
        refusal = response if isinstance(response, Refusal) else await refusal_in(response)
        redact = self.redactor(refusal.authorization)
        failure = failure_of_response(
            refusal.status,
            refusal.headers,
            refusal.body,
            had_session=had_session,
            redact=redact,
        )
        if failure is not None:
            raise FailedError(failure.redacted(redact))
        message = read_message(refusal.body)
        if message is None or message.error is None:
            raise FailedError(UNREADABLE)
        raise ServerRpcError(message.error.code, message.error.message, message.error.data)

    def _broke(
        self,
        error: Exception,
        *,
        sent: bool,
        headers: Mapping[str, str] | None = None,
        answered: bool = False,
    ) -> FailedError:
        host = urlsplit(self.url).hostname or ""
        fault = tls_fault(error)
        # A server that wants another client certificate has not read what was written.
        is_refused = not answered and fault is not None and fault.kind == "client_certificate"
        never = isinstance(error, BEFORE_SENDING) or not sent or is_refused
        reason = explain_connection_error(error, host)
        if self._may_want_certificate(error):
            reason += "; it may want a client certificate (`tls.client_cert`)"
        if never:
            remedy = ""
            if fault is not None:
                remedy = f" `pegboard doctor {self._config.name}` says more."
            elif isinstance(
                error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError
            ):
                remedy = " Check its `proxy`, or the proxy of the environment."
            failure = Failure(kind="not_sent", message=f"{reason}.", remedy=remedy)
        elif isinstance(error, TimeoutError):
            failure = Failure(
                kind="lost", message=f"The server stayed silent for too long ({reason})."
            )
        else:
            failure = Failure(
                kind="lost", message=f"The connection broke before the answer: {reason}."
            )
        return self._failed(failure, (headers or {}).get("authorization", ""))

    def _may_want_certificate(self, error: Exception) -> bool:
        """Tell whether a server that says nothing may have refused us during the handshake."""
        has_one = self._config.tls is not None and self._config.tls.client_cert is not None
        is_silent = isinstance(error, aiohttp.ServerDisconnectedError) and not self._has_answered
        return is_silent and not has_one and self.url.startswith("https:")

    def _failed(self, failure: Failure, authorization: str = "") -> FailedError:
        return FailedError(failure.redacted(self.redactor(authorization)))

    def redactor(self, authorization: str = "") -> Callable[[str], str]:
        """Return a function that redacts all secrets of this server, and those of a request."""
        # Tokens and headers may be newer than the configuration.
        sent = [authorization.rpartition(" ")[2]]
        sent += [self._headers[name] for name in self._headers if name not in _HARMLESS]

        def redact(text: str) -> str:
            for secret in sorted(sent, key=len, reverse=True):
                if len(secret) >= _SHORTEST_SECRET:
                    text = text.replace(secret, HIDDEN)
            return self._config.redact(text)

        return redact


def without_credentials(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without its user and password, and the header that carries them instead."""
    parts = urlsplit(url)
    user, separator, place = parts.netloc.rpartition("@")
    if not separator:
        return url, {}
    name, _, password = user.partition(":")
    credentials = aiohttp.encode_basic_auth(unquote(name), unquote(password))
    return urlunsplit(parts._replace(netloc=place)), {"authorization": credentials}


def origin_of(url: str) -> tuple[str, str, int]:
    """Return the scheme, the host and the port of a URL.

    Raises:
        ValueError: when it is not a URL.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, (parts.hostname or "").lower(), port
