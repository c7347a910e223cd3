"""Servers in this process: the SDK's server objects, and streams that an application opens."""

import json
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context, ContextVar
from typing import Any, cast

import anyio
from mcp import MCPError, StdioServerParameters, stdio_client
from mcp.server import MCPServer, Server
from mcp.server.runner import modern_on_request
from mcp.shared.dispatcher import CallOptions, OnRequest
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from pegboard.config import ServerConfig
from pegboard.config.network_variables import network_variables
from pegboard.upstream.messages.channel import DuplexChannel, Exchanges, Receive
from pegboard.upstream.messages.failures import FailedError, Failure
from pegboard.upstream.messages.jsonrpc import Message, ServerRpcError
from pegboard.upstream.messages.protocol import INTERNAL_ERROR, INVALID_PARAMS

__all__ = ["memory_channel", "stream_channel", "windows_channel"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_SECONDS_TO_END = 2.0
_sender: ContextVar[int | str | None] = ContextVar("sender", default=None)
"""The id of the request in whose context a message is sent; streams in memory hand it on."""
_TRANSPORT = TransportContext(kind="direct", can_send_request=False)


@asynccontextmanager
async def memory_channel(
    config: ServerConfig, *, receive: Receive, on_lost: Callable[[str], None], is_legacy: bool
) -> AsyncGenerator["DuplexChannel | DirectChannel"]:
    """Open a channel to a server object of the SDK, or over a transport of the application.

    ``on_lost`` is called once, with the reason, when the transport ends by itself.
    """
    server = _server_in(config.server)
    async with AsyncExitStack() as stack:
        if server is None:
            streams = await stack.enter_async_context(config.server)
        elif is_legacy:
            streams = await stack.enter_async_context(_served(server))
        else:
            state = await stack.enter_async_context(server.lifespan(server))
            direct = DirectChannel(modern_on_request(server, state))
            stack.callback(direct.close)
            yield direct
            return
        channel = stream_channel(config, streams, receive=receive, on_lost=on_lost)
        yield await stack.enter_async_context(channel)


@asynccontextmanager
async def stream_channel(
    config: ServerConfig, streams: Any, *, receive: Receive, on_lost: Callable[[str], None]
) -> AsyncGenerator[DuplexChannel]:
    """Open a channel over a pair of streams of the SDK's messages, which are left open."""
    incoming, outgoing = streams[:2]

    async def write(line: bytes, number: int | str | None) -> None:
        token = _sender.set(number)
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            await outgoing.send(SessionMessage(message))
        except ValidationError as error:
            problem = "It cannot be read as a message."
            raise FailedError(Failure(kind="not_sent", message=problem)) from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise FailedError(Failure(kind="not_sent", message="Its stream is closed.")) from None
        finally:
            _sender.reset(token)

    async def read() -> None:
        try:
            async for item in incoming:
                if isinstance(item, SessionMessage):
                    plain = item.message.model_dump(
                        by_alias=True, exclude_unset=True, mode="python"
                    )
                    # Escaped, because a text may have half of a character in it.
                    data = json.dumps(plain, default=str).encode()
                    await channel.take_any(data, _sender_in(incoming))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            logger.debug("stream_closed: server %r", config.name)
        channel.close()
        on_lost("The connection was closed.")

    channel = DuplexChannel(config.name, write, receive, most_values=config.max_response_values)
    async with anyio.create_task_group() as group:
        group.start_soon(read)
        try:
            yield channel
        finally:
            channel.close()
            group.cancel_scope.cancel()


class DirectChannel:
    """Calls the handlers of a server object, in the task of the caller."""

    cancels_by_closing: bool = True
    keeps_session: bool = True
    set_headers: Callable[[Mapping[str, str]], None] | None = None

    def __init__(self, on_request: OnRequest) -> None:
        self._on_request = on_request
        self._exchanges = Exchanges()

    async def request(
        self, message: Mapping[str, Any], headers: Mapping[str, str], receive: Receive
    ) -> dict[str, Any]:
        """Run a request and return its result."""
        return await self._exchanges.run(lambda: self._run(message, receive))

    async def send(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Send nothing: the modern era has no notifications of clients."""

    def close(self) -> None:
        """End all running requests."""
        self._exchanges.close()

    async def _run(self, message: Mapping[str, Any], receive: Receive) -> dict[str, Any]:
        params = message["params"]
        try:
            context = _Context(message["id"], params.get("_meta", {}).get("progressToken"), receive)
            return await self._on_request(context, message["method"], params)
        except MCPError as error:
            raise ServerRpcError(error.code, error.message, error.data) from error
        except ValidationError as error:
            raise ServerRpcError(INVALID_PARAMS, "Invalid request parameters", "") from error
        except Exception as error:
            logger.exception("request_failed: %s", message["method"])
            raise ServerRpcError(INTERNAL_ERROR, "Internal server error") from error


class _Context:
    """What a handler of the server gets of its request."""

    transport: TransportContext = _TRANSPORT
    can_send_request: bool = False
    message_metadata: None = None

    def __init__(self, request_id: int | str, token: object, receive: Receive) -> None:
        self.request_id: int | str | None = request_id
        self.cancel_requested: anyio.Event = anyio.Event()
        self._token = token
        self._receive = receive

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        told = self._receive(Message(method=method, params=dict(params or {})))
        if told is not None:
            await told

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        if self._token is not None:
            said = {"progress": progress, "total": total, "message": message}
            await self.notify("notifications/progress", {"progressToken": self._token, **said})


@asynccontextmanager
async def _served(server: Server[Any]) -> AsyncGenerator[Any]:
    """Serve an object over streams in memory, as servers of the handshake era need it."""
    async with create_client_server_memory_streams() as (ours, theirs):
        ended = anyio.Event()

        async def serve() -> None:
            try:
                await server.run(*theirs, server.create_initialization_options())
            finally:
                ended.set()

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            try:
                yield ours
            finally:
                with anyio.CancelScope(shield=True):
                    await ours[1].aclose()
                    await theirs[1].aclose()
                    # What the server does at its end is code of the application.
                    with anyio.move_on_after(_SECONDS_TO_END):
                        await ended.wait()
                group.cancel_scope.cancel()


def _sender_in(stream: object) -> int | str | None:
    """Return the request in whose context the last message of a stream was sent, if it tells."""
    context: object = getattr(stream, "last_context", None)
    return context.get(_sender) if isinstance(context, Context) else None


def _server_in(given: object) -> Server[Any] | None:
    """Return the low-level server of a server object; ``None`` for a transport."""
    if isinstance(given, Server):
        return cast("Server[Any]", given)
    if not isinstance(given, MCPServer):
        return None
    server = cast("MCPServer[Any]", given)
    # Only its HTTP app names the low-level server in public. Making the app opens nothing.
    try:
        return server.session_manager.app
    except RuntimeError:
        server.streamable_http_app()
    return server.session_manager.app


@asynccontextmanager
async def windows_channel(
    config: ServerConfig, *, receive: Receive, on_lost: Callable[[str], None]
) -> AsyncGenerator[DuplexChannel]:
    """Open a channel to a process on Windows, which the SDK starts and ends."""
    env = network_variables(os.environ) if config.inherit_network else {}
    env |= {**config.shared_env, **config.env}
    process = StdioServerParameters(
        command=config.command or "", args=list(config.args), env=env, cwd=config.cwd
    )
    async with (
        stdio_client(process) as streams,
        stream_channel(config, streams, receive=receive, on_lost=on_lost) as channel,
    ):
        yield channel
