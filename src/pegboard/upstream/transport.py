"""Transport: choose stdio, HTTP, SSE, WebSocket or memory by the configuration of a server."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from mcp.client.stdio import StdioServerParameters

from pegboard.config import ServerConfig
from pegboard.upstream.errors.log_filter import hide_secrets_of
from pegboard.upstream.http.client import HttpPool, http_transport, sse_transport
from pegboard.upstream.http.fast_path import direct_to
from pegboard.upstream.messages.jsonrpc import SingleExchanges
from pegboard.upstream.stdio.fast_path import StdioFastPath
from pegboard.upstream.stdio.process import GRACE
from pegboard.upstream.stdio.transport import stdio_transport

__all__ = ["OpenTransport", "open_transport"]


class OpenTransport(msgspec.Struct, frozen=True):
    """The transport for the SDK's client, and what the session needs to know about it."""

    transport: Any
    keeps_session: Callable[[], bool] = lambda: True
    set_headers: Callable[[Mapping[str, str]], None] | None = None
    """Replaces the runtime headers; ``None`` if the transport has no headers."""
    direct: SingleExchanges | None = None
    """The fast path for single requests, if the transport has one."""


def open_transport(
    config: ServerConfig,
    *,
    pool: HttpPool,
    on_lost: Callable[[str], None],
    grace: float = GRACE,
) -> OpenTransport:
    """Return the transport of a server; nothing is opened before it is entered.

    A process has ``grace`` seconds to end once its input is closed.
    """
    hide_secrets_of(config)
    match config.transport:
        case "memory":
            return OpenTransport(config.server)
        case "stdio":
            exchanges = StdioFastPath()
            streams = _stdio(config, on_lost, exchanges, grace=grace)
            return OpenTransport(streams, direct=exchanges)
        case "websocket":
            # Few servers need it, and it needs an extra.
            from pegboard.upstream.websocket import websocket_transport  # noqa: PLC0415

            return OpenTransport(websocket_transport(config, on_lost=on_lost))
        case "sse" | "streamable_http":
            client = pool.client_for(config, _login(config, pool))
            if config.transport == "sse":
                streams = sse_transport(config, pool, on_lost=on_lost, client=client)
                return OpenTransport(streams, set_headers=client.set_runtime_headers)
            return OpenTransport(
                http_transport(config, pool, client=client),
                lambda: client.session_id is not None,
                client.set_runtime_headers,
                direct_to(config, client, pool),
            )


def _login(config: ServerConfig, pool: HttpPool) -> Any:
    if config.oauth is None:
        return None
    # After a reload the name may stand for another server, which must not get the token.
    key = (config.name, config.url, config.oauth)
    if key not in pool.logins:
        # Few servers need it, and it imports cryptography.
        from pegboard.upstream.oauth.background_login import BackgroundLogin  # noqa: PLC0415
        from pegboard.upstream.oauth.provider import oauth_provider  # noqa: PLC0415

        show = None if pool.on_login is None else partial(pool.on_login, config.name)
        start = pool.start_soon
        background_login = None if start is None else BackgroundLogin(start, pool.send)
        login = oauth_provider(
            config,
            storage=pool.token_storage,
            on_login=show,
            tenant=pool.tenant,
            background_login=background_login,
        )
        pool.logins[key] = login
    return pool.logins[key]


def _stdio(
    config: ServerConfig,
    on_lost: Callable[[str], None],
    exchanges: StdioFastPath,
    *,
    grace: float,
) -> Any:
    if sys.platform == "win32":
        # The SDK knows job objects; our process groups and guardian are POSIX.
        return StdioServerParameters(
            command=config.command or "",
            args=list(config.args),
            env=dict(config.env),
            cwd=config.cwd,
        )
    return stdio_transport(config, on_lost=on_lost, exchanges=exchanges, grace=grace)
