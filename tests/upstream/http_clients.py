"""Sessions and clients for the tests of the HTTP transports, and what their failures say."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest
from starlette.applications import Starlette

from pegboard.config.servers import ServerConfig
from pegboard.errors import UpstreamError
from pegboard.upstream import Questions
from pegboard.upstream.connection import OnChanged
from pegboard.upstream.http.client import HttpClient
from pegboard.upstream.http.pool import HttpPool
from pegboard.upstream.messages.failures import FailedError, Failure, failure_behind
from pegboard.upstream.session.session import UpstreamSession, open_session
from tests.upstream.http_servers import Gate, build_server

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'


@asynccontextmanager
async def connected(
    config: ServerConfig,
    pool: HttpPool | None = None,
    *,
    protocol: Any = "legacy",
    on_lost: Callable[[str], None] = lambda reason: None,
    on_changed: OnChanged = lambda kind, name: None,
) -> AsyncGenerator[UpstreamSession]:
    """Open a session, in the handshake era unless the test says otherwise."""
    async with open_session(
        msgspec.structs.replace(config, protocol=protocol),
        pool=HttpPool() if pool is None else pool,
        questions=Questions(),
        on_lost=on_lost,
        on_changed=on_changed,
    ) as session:
        yield session


def app_of(transport: str, gate: Gate | None = None, **options: Any) -> tuple[Starlette, str]:
    server = build_server(gate)
    if transport == "sse":
        return server.sse_app(**options), "/sse"
    return server.streamable_http_app(**options), "/mcp"


async def call(session: UpstreamSession, tool: str, **arguments: Any) -> Any:
    """Call a tool; gives its structured result."""
    raw = await session.request("tools/call", {"name": tool, "arguments": arguments}, tool=tool)
    assert not raw.get("isError"), raw
    return raw["structuredContent"]["result"]


async def failure_in(work: Awaitable[object]) -> Failure:
    with anyio.fail_after(8), pytest.raises((FailedError, UpstreamError)) as caught:
        await work
    failure = failure_behind(caught.value)
    assert failure is not None, caught.value
    return failure


async def refusal_of(config: ServerConfig, pool: HttpPool | None = None) -> Failure:
    """What connecting fails with."""

    async def connect() -> None:
        async with connected(config, pool):
            pass

    return await failure_in(connect())


async def post(client: HttpClient, **headers: str) -> bytes:
    """Send a request; gives the body of the response."""
    with anyio.fail_after(8):
        return await client.whole_body(await client.post(REQUEST, headers))
