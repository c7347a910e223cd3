"""The WebSocket transport, with the optional library ``websockets``."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import MCPError
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from pegboard.config.servers import ServerConfig
from pegboard.errors import ConfigError
from pegboard.errors.extras import install_extra
from pegboard.upstream.errors.failures import Failure, failure_of_answer
from pegboard.upstream.http.headers import configured_headers
from pegboard.upstream.http.shared_connections import is_loopback
from pegboard.upstream.messages.jsonrpc import read_message

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["websocket_transport"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_LARGEST_MESSAGE = 64 * 1024 * 1024
_SECONDS_TO_CLOSE = 2.0

Received = SessionMessage | Exception


@asynccontextmanager
async def websocket_transport(
    config: ServerConfig, *, on_lost: Callable[[str], None]
) -> AsyncGenerator[TransportStreams]:
    """Open a WebSocket to a server, as the pair of streams that ``mcp.Client`` takes.

    Args:
        config: The server.
        on_lost: Called once with the reason when the connection ends without us closing it.

    Raises:
        ConfigError: when the extra ``pegboard[websocket]`` is not installed, or a header of the
            server cannot be sent.
        MCPError: when the connection cannot be opened; ``failure_of`` its error says why.
    """
    connection = await _open(config)
    try:
        to_session, incoming = anyio.create_memory_object_stream[Received]()
        outgoing, from_session = anyio.create_memory_object_stream[SessionMessage]()
        async with (
            to_session,
            incoming,
            outgoing,
            from_session,
            anyio.create_task_group() as group,
        ):
            group.start_soon(_read, connection, to_session, on_lost)
            group.start_soon(_write, connection, from_session)
            try:
                yield incoming, outgoing
            finally:
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await connection.close()


async def _open(config: ServerConfig) -> "ClientConnection":
    # In a thread: an import reads from the disk.
    connect, problems = await anyio.to_thread.run_sync(_library)
    url = config.url or ""
    options: dict[str, Any] = {}
    if url.startswith("wss:"):
        # In a thread: it reads certificates.
        options["ssl"] = await anyio.to_thread.run_sync(httpx2.create_ssl_context)
    if is_loopback(urlsplit(url).hostname or ""):
        options["proxy"] = None
    try:
        return await connect(
            url,
            subprotocols=["mcp"],
            additional_headers=configured_headers(config),
            open_timeout=config.timeouts.connect,
            close_timeout=_SECONDS_TO_CLOSE,
            max_size=_LARGEST_MESSAGE,
            **options,
        )
    except (OSError, ValueError, problems.WebSocketException) as error:
        failure = _failure(error, getattr(error, "response", None))
        told = failure.redacted(config.redact).error
        raise MCPError(told.code, told.message, told.data) from error


def _library() -> tuple[Any, Any]:
    try:
        from websockets import exceptions  # noqa: PLC0415 - an optional extra
        from websockets.asyncio.client import connect  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise ConfigError(
            "Servers behind a WebSocket need the extra `pegboard[websocket]`: "
            f"run `{install_extra('websocket')}`."
        ) from None

    class ConnectHere(connect):
        """Connects to the address it is given; a redirect would take the credentials along."""

        def process_redirect(self, exc: Exception) -> Exception:
            return exc

    return ConnectHere, exceptions


async def _read(
    connection: "ClientConnection",
    to_session: MemoryObjectSendStream[Received],
    on_lost: Callable[[str], None],
) -> None:
    _, problems = _library()
    reason = "The server closed the connection."
    async with to_session:
        try:
            async for text in connection:
                await to_session.send(_message(text))
        except problems.ConnectionClosed as error:
            reason = f"The connection broke: {error}."
        except anyio.BrokenResourceError:
            return
        on_lost(reason)


async def _write(
    connection: "ClientConnection", from_session: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    _, problems = _library()
    async for outgoing in from_session:
        try:
            await connection.send(
                outgoing.message.model_dump_json(by_alias=True, exclude_unset=True)
            )
        except problems.ConnectionClosed:
            # The reader has seen it too, and tells the session.
            return


def _message(text: str | bytes) -> Received:
    message = read_message(text.encode() if isinstance(text, str) else text)
    return ValueError("not a message") if message is None else SessionMessage(message)


def _failure(error: Exception, response: Any) -> Failure:
    if response is not None:
        answer = httpx2.Response(response.status_code, headers=list(response.headers.raw_items()))
        failure = failure_of_answer(answer, bytes(response.body or b""), had_session=False)
        if failure is not None:
            return failure
    reason = str(error).rstrip(".") or type(error).__name__
    return Failure(kind="not_sent", message=f"{reason}.")
