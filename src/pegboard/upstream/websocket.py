"""The WebSocket transport, with the optional library ``websockets``."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import anyio
import anyio.to_thread

from pegboard.config.servers import ServerConfig
from pegboard.errors import ConfigError
from pegboard.errors.extras import install_extra
from pegboard.upstream.http.headers import configured_headers
from pegboard.upstream.http.proxies import proxy_for
from pegboard.upstream.http.tls import explain_tls_error, tls_context
from pegboard.upstream.messages.channel import DuplexChannel, Receive
from pegboard.upstream.messages.failures import FailedError, Failure, failure_of_response
from pegboard.upstream.messages.response_limits import RESPONSES

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["websocket_channel"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_LARGEST_MESSAGE = 64 * 1024 * 1024
_SECONDS_TO_CLOSE = 2.0


@asynccontextmanager
async def websocket_channel(
    config: ServerConfig, *, receive: Receive, on_lost: Callable[[str], None]
) -> AsyncGenerator[DuplexChannel]:
    """Open a WebSocket to a server.

    Args:
        config: The server.
        receive: Gets the notifications and requests of the server.
        on_lost: Called once with the reason when the connection ends without us closing it.

    Raises:
        ConfigError: when the extra ``pegboard[websocket]`` is not installed, or a header or a TLS
            file of the server cannot be used.
        FailedError: when the connection cannot be opened.
    """
    connection = await _open(config)
    _, problems = _library()

    async def write(line: bytes, _: object) -> None:
        try:
            await connection.send(line, text=True)
        except problems.ConnectionClosed as error:
            raise FailedError(Failure(kind="not_sent", message="The connection broke.")) from error

    try:
        channel = DuplexChannel(config.name, write, receive, most_values=config.max_response_values)
        async with anyio.create_task_group() as group:
            group.start_soon(_read, connection, channel, config.name, on_lost)
            try:
                yield channel
            finally:
                channel.close()
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await connection.close()


async def _open(config: ServerConfig) -> "ClientConnection":
    # In a thread: an import reads from the disk.
    connect, problems = await anyio.to_thread.run_sync(_library)
    url = config.url or ""
    proxy = proxy_for(url.replace("ws", "http", 1), config.proxy, getproxies())
    options: dict[str, Any] = {"proxy": proxy}
    if url.startswith("wss:"):
        # In a thread: it reads certificates.
        options["ssl"] = await anyio.to_thread.run_sync(tls_context, config.tls)
    try:
        return await connect(
            url,
            subprotocols=["mcp"],
            additional_headers=configured_headers(config),
            open_timeout=config.timeouts.connect,
            close_timeout=_SECONDS_TO_CLOSE,
            max_size=_LARGEST_MESSAGE,
            # Frames that are not read yet have that size, too.
            max_queue=1,
            # As over HTTP: to decompress is work that no size limits.
            compression=None,
            **options,
        )
    except (OSError, ValueError, problems.WebSocketException) as error:
        host = urlsplit(url).hostname or ""
        is_of_proxy = isinstance(error, problems.ProxyError)
        response = None if is_of_proxy else getattr(error, "response", None)
        failure = _failure(error, response, host)
        raise FailedError(failure.redacted(config.redact)) from error


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
    channel: DuplexChannel,
    server: str,
    on_lost: Callable[[str], None],
) -> None:
    _, problems = _library()
    reason = "The server closed the connection."
    try:
        async for text in connection:
            data = text.encode() if isinstance(text, str) else text
            share = RESPONSES.share(server)
            try:
                await share.grow(len(data))
                if not await channel.take_any(data):
                    logger.debug("not_a_message: a frame of %d bytes", len(data))
            finally:
                share.close()
    except problems.ConnectionClosed as error:
        reason = f"The connection broke: {error}."
    on_lost(reason)
    channel.close()


def _failure(error: Exception, response: Any, host: str) -> Failure:
    if response is not None:
        headers = {name.lower(): value for name, value in response.headers.raw_items()}
        failure = failure_of_response(
            response.status_code, headers, bytes(response.body or b""), had_session=False
        )
        if failure is not None:
            return failure
    reason = explain_tls_error(error, host) or str(error).rstrip(".") or type(error).__name__
    return Failure(kind="not_sent", message=f"{reason}.")
