"""The real app on a real socket of this machine, in the loop of the test."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx2
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)

from pegboard.server import App, Limits, RequestPipeline
from pegboard.server.http.disconnect_watcher import DisconnectWatcher
from pegboard.server.http.uvicorn_server import HttpServer, listen_on
from tests.server.fake_gateway import FakeGateway

MODERN = "2026-07-28"
META: dict[str, Any] = {
    PROTOCOL_VERSION_META_KEY: MODERN,
    CLIENT_CAPABILITIES_META_KEY: {},
    CLIENT_INFO_META_KEY: {"name": "test", "version": "1"},
}
TAKES_BOTH = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

WATCHER = "pegboard.server.http.app.DisconnectWatcher"
"""What a test replaces, so that long requests are looked after at once."""
hasty = partial(DisconnectWatcher, after=0.01, ping_every=0.02)


@asynccontextmanager
async def served(
    app: App, limits: Limits | None = None, *, descriptors: int | None = None
) -> AsyncGenerator[str]:
    """Give the address at which an app is served."""
    listener = listen_on("127.0.0.1", 0)
    limits = Limits() if limits is None else limits
    server = HttpServer(app, limits=limits, end_within=1, descriptors=descriptors)
    async with app.open(), anyio.create_task_group() as tasks:
        tasks.start_soon(server.close_slow_connections)
        ended = anyio.Event()

        async def serve() -> None:
            await server.serve([listener])
            ended.set()

        # Before it is served: a client that connects now gets its response once it is.
        listener.listen()
        tasks.start_soon(serve)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            with anyio.fail_after(5, shield=True):
                await app.end_streams()
                server.end()
                await ended.wait()
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def served_fake(**options: Any) -> AsyncGenerator[tuple[FakeGateway, str]]:
    """Give a fake gateway, and the address at which it is served."""
    gateway = FakeGateway()
    async with served(App(RequestPipeline(gateway), **options)) as url:
        yield gateway, url


def modern_request(
    method: str, params: dict[str, Any] | None = None, **meta: Any
) -> dict[str, Any]:
    """Return the body of a request of the modern era."""
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {**(params or {}), "_meta": {**META, **meta}},
    }


def modern_headers(body: dict[str, Any], **more: str) -> dict[str, str]:
    """Return the headers that belong to it."""
    headers = {**TAKES_BOTH, "mcp-protocol-version": MODERN, "mcp-method": body["method"]}
    params = body["params"]
    name = params.get("name") or params.get("uri") or params.get("taskId")
    return {**headers, **({"mcp-name": name} if name else {}), **more}


async def post(url: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
    """Send a request of the modern era."""
    async with httpx2.AsyncClient() as client:
        return await client.post(url, json=body, headers=modern_headers(body, **headers))
