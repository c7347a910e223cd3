"""HttpFastPath: send requests to a plain HTTP server as single exchanges, without the SDK.

The SDK's client passes each message through streams, tasks and models, which costs several times
as much as the exchange itself. The fast path serves requests that need nothing of this; the bytes
on the wire and the possible errors are the same.
"""

from collections.abc import Mapping
from typing import Any
from urllib.request import getproxies

import anyio
import httpx2
import msgspec
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

from pegboard.config.servers import ServerConfig
from pegboard.upstream.errors.failures import UNREADABLE, Failure, failure_of_answer
from pegboard.upstream.http.client import LARGEST_ANSWER, HttpPool, UpstreamHttpClient
from pegboard.upstream.http.http1_connection import (
    TooLargeError,
    WireClient,
    WireError,
    WireResponse,
)
from pegboard.upstream.http.response_bodies import Event, EventReader, EventTooLargeError
from pegboard.upstream.http.shared_connections import proxy_for
from pegboard.upstream.messages.jsonrpc import (
    ForeignResponseError,
    NotDirectError,
    OnMessage,
    ResumableError,
    message_in,
    result_in,
)

__all__ = ["HttpFastPath", "direct_to"]

_LARGEST_ERROR = 64 * 1024
_SECONDS_FOR_ERROR = 5.0


_requests = msgspec.json.Encoder()


def direct_to(
    config: ServerConfig, client: UpstreamHttpClient, pool: HttpPool
) -> "HttpFastPath | None":
    """Return the fast path to a server; ``None`` if only the SDK can reach it."""
    url = httpx2.URL(config.url or "")
    if url.scheme != "http" or url.userinfo or client.auth is not None:
        return None
    if proxy_for(url, getproxies()) is not None:
        return None
    return HttpFastPath(config, client, pool)


class HttpFastPath:
    """Sends requests of one session, each as one exchange."""

    hears: bool = True
    is_ended_by_closing: bool = True
    why_lost: str = ""

    def __init__(self, config: ServerConfig, client: UpstreamHttpClient, pool: HttpPool) -> None:
        self._client = client
        self._url = httpx2.URL(config.url or "")
        self._wire = WireClient(
            pool.wires,
            (self._url.raw_host.decode("ascii").strip("[]"), self._url.port or 80),
            patience=config.timeouts.connect,
            largest=LARGEST_ANSWER,
        )
        self._headers: httpx2.Headers | None = None
        self._head = ""

    def close(self) -> None:
        """End all running exchanges."""
        self._wire.close()

    async def request(
        self, message: Mapping[str, Any], headers: Mapping[str, str], on_message: OnMessage
    ) -> dict[str, Any]:
        """Send a request and return its result.

        Raises:
            MCPError: when the server responds with an error, or not at all.
            NotDirectError: when only the SDK can send it.
            ResumableError: when the rest of the response can be resumed.
        """
        try:
            body = _requests.encode(message)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise NotDirectError from error
        length = {"content-type": "application/json", "content-length": str(len(body))}
        request = self._head_of("POST", {**headers, **length}) + body
        return await self._exchange(request, on_message, message["id"])

    async def resume(
        self, last_event: str, headers: Mapping[str, str], on_message: OnMessage
    ) -> dict[str, Any]:
        """Resume a stream that ended too soon, and return the result in it.

        Raises:
            MCPError: when the server responds with an error, or not at all.
            NotDirectError: when only the SDK can send it.
            ResumableError: when this stream ended too soon as well.
        """
        head = self._head_of("GET", {**headers, "last-event-id": last_event})
        return await self._exchange(head, on_message)

    async def _exchange(
        self, request: bytes, on_message: OnMessage, number: int | None = None
    ) -> dict[str, Any]:
        had_session = self._client.session_id is not None
        try:
            answer = await self._wire.send(request)
        except TooLargeError:
            raise self._failed(
                Failure(
                    kind="http_error",
                    message=f"The response exceeds {LARGEST_ANSWER >> 20} MiB. The call has run.",
                )
            ) from None
        except WireError as error:
            raise self._broke(error) from None
        if answer.is_plain:
            return await self._result(answer, number)
        result: dict[str, Any] | Exception
        try:
            if answer.status < 300:
                result = await self._streamed(answer, on_message, number)
            else:
                result = await self._refusal(answer, had_session=had_session)
        except BaseException:
            answer.close()
            raise
        answer.leave()
        if isinstance(result, Exception):
            raise result
        return result

    def _head_of(self, verb: str, headers: Mapping[str, str]) -> bytes:
        client = self._client
        if client.headers is not self._headers:
            self._headers, self._head = client.headers, self._fixed_head(client.headers)
        lines = [verb, self._head]
        if client.session_id is not None:
            lines.append(f"mcp-session-id: {client.session_id}\r\n")
        for name, value in headers.items():
            if not value.isprintable():
                raise NotDirectError
            lines.append(f"{name}: {value}\r\n")
        lines.append("\r\n")
        try:
            return "".join(lines).encode("ascii")
        except UnicodeEncodeError as error:
            raise NotDirectError from error

    def _fixed_head(self, headers: httpx2.Headers) -> str:
        url = self._url
        fixed = {
            **headers,
            "host": url.netloc.decode("ascii"),
            "accept": "application/json, text/event-stream",
            "accept-encoding": "identity",
        }
        lines = [f" {url.raw_path.decode('ascii')} HTTP/1.1"]
        lines += (f"{name}: {value}" for name, value in fixed.items())
        return "\r\n".join([*lines, ""])

    async def _result(self, answer: WireResponse, number: int | None) -> dict[str, Any]:
        body = answer.take()
        if answer.status == 202:
            raise MCPError(INVALID_REQUEST, "server answered a request with 202 Accepted")
        if answer.kind != "application/json":
            raise MCPError(INVALID_REQUEST, f"Unexpected content type: {answer.kind}")
        if answer.headers.get("content-encoding", "identity") != "identity":
            body = self._decompressed(answer, body)
        try:
            result = await result_in(body, number)
        except ForeignResponseError:
            # What comes next on this connection belongs to other requests, too.
            answer.close()
            words = "The server responded to another request instead."
            raise self._failed(Failure(kind="lost", message=words)) from None
        if result is None:
            raise self._failed(UNREADABLE)
        return result

    def _decompressed(self, answer: WireResponse, body: bytes) -> bytes:
        """Return a body that the server compressed although the request did not allow it."""
        decompressed = bytearray()
        whole = httpx2.Response(200, headers=answer.headers, stream=httpx2.ByteStream(body))
        try:
            for chunk in whole.iter_bytes():
                decompressed += chunk
                if len(decompressed) > LARGEST_ANSWER:
                    break
        except httpx2.DecodingError:
            decompressed.clear()
        return bytes(decompressed)

    async def _streamed(
        self, answer: WireResponse, on_message: OnMessage, number: int | None
    ) -> dict[str, Any]:
        reader = EventReader(largest=LARGEST_ANSWER)
        last = Event("", b"")
        while True:
            try:
                chunk = await answer.more()
                events = reader.feed(chunk)
            except WireError as error:
                raise _ended(last) or self._broke(error) from None
            except EventTooLargeError:
                raise MCPError(
                    CONNECTION_CLOSED, "SSE stream failed: an event is too large"
                ) from None
            for event in events:
                last = msgspec.structs.replace(
                    event, id=event.id or last.id, retry=event.retry or last.retry
                )
                if event.kind != "message" or not event.data:
                    continue
                result = await self._heard(event.data, on_message, number)
                if result is not None:
                    return result
            if not chunk:
                closed = MCPError(CONNECTION_CLOSED, "SSE stream ended without a response")
                raise _ended(last) or closed

    async def _heard(
        self, data: bytes, on_message: OnMessage, number: int | None
    ) -> dict[str, Any] | None:
        try:
            result = await result_in(data, number)
        except ForeignResponseError:
            # The response to our request may follow.
            return None
        if result is not None:
            return result
        message = message_in(data)
        if message is None:
            raise self._failed(UNREADABLE)
        await on_message(message)
        return None

    async def _refusal(self, answer: WireResponse, *, had_session: bool) -> Exception:
        if answer.status < 400:
            # A redirect, so it did not run; the SDK knows which redirects to follow.
            return NotDirectError()
        body = bytearray()
        with anyio.move_on_after(_SECONDS_FOR_ERROR):
            try:
                while chunk := await answer.more():
                    body += chunk
                    if len(body) >= _LARGEST_ERROR:
                        break
            except WireError:
                # The status says enough.
                pass
        said = bytes(body[:_LARGEST_ERROR])
        response = httpx2.Response(answer.status, headers=answer.headers)
        redact = self._client.redactor()
        failure = failure_of_answer(response, said, had_session=had_session, redact=redact)
        if failure is not None:
            return self._failed(failure)
        try:
            await result_in(said)
        except MCPError as error:
            return error
        return self._failed(UNREADABLE)

    def _broke(self, error: WireError) -> MCPError:
        if not error.sent:
            return self._failed(Failure(kind="not_sent", message=f"{error}."))
        words = f"The connection broke before the answer: {error}."
        return self._failed(Failure(kind="lost", message=words))

    def _failed(self, failure: Failure) -> MCPError:
        error = failure.redacted(self._client.redactor()).error
        return MCPError(error.code, error.message, error.data)


def _ended(last: Event) -> ResumableError | None:
    return None if last.id is None else ResumableError(last.id, last.retry)
