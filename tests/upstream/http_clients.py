"""Clients for the tests of the HTTP transports, and what their failures say."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp_types import JSONRPCError
from starlette.applications import Starlette

from pegboard.config.servers import ServerConfig
from pegboard.upstream.errors.failures import Failure, failure_of
from pegboard.upstream.http.client import (
    HttpPool,
    UpstreamHttpClient,
    http_transport,
    sse_transport,
)
from tests.upstream.http_servers import (
    Gate,
    build_server,
)


@asynccontextmanager
async def connected(
    config: ServerConfig,
    pool: HttpPool,
    *,
    mode: str = "legacy",
    on_lost: Callable[[str], None] = lambda reason: None,
    client: UpstreamHttpClient | None = None,
) -> AsyncGenerator[Client]:
    if config.transport == "sse":
        transport = sse_transport(config, pool, on_lost=on_lost, client=client)
    else:
        transport = http_transport(config, pool, client=client)
    async with Client(transport, mode=mode, read_timeout_seconds=10) as session:
        yield session


def app_of(transport: str, gate: Gate | None = None, **options: Any) -> tuple[Starlette, str]:
    server = build_server(gate)
    if transport == "sse":
        return server.sse_app(**options), "/sse"
    return server.streamable_http_app(**options), "/mcp"


async def failure_in(call: Any) -> Failure:
    with anyio.fail_after(8), pytest.raises(MCPError) as caught:
        await call
    failure = failure_of(caught.value.error)
    assert failure is not None, caught.value
    return failure


async def refusal_of(config: ServerConfig, pool: HttpPool) -> MCPError:
    """What connecting fails with, inside of however many groups."""
    with anyio.fail_after(8):
        try:
            async with connected(config, pool):
                pass
        except (MCPError, ExceptionGroup) as caught:
            error: Exception = caught
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            assert isinstance(error, MCPError), error
            return error
    raise AssertionError("The server let us in.")


def post(client: UpstreamHttpClient, url: str, **headers: str) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    return client.request("POST", url, json=body, headers=headers)


def failure_from(response: httpx2.Response) -> Failure:
    assert response.status_code == 503
    failure = failure_of(JSONRPCError.model_validate_json(response.content).error)
    assert failure is not None
    return failure
