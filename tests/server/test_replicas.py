"""Three processes on one PostgreSQL store, behind a balancer that sends each request elsewhere."""

import json
import sys
from contextlib import AsyncExitStack
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest

from pegboard.auth import ApiKeys, KeyGrant
from pegboard.model.principal import OPERATOR
from pegboard.storage import open_store
from tests.server.processes import Served, servers, serving
from tests.server.serving import TAKES_BOTH, modern_headers, modern_request
from tests.server.test_http_sessions import INITIALIZE, PING
from tests.storage.postgres_server import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]


class Balancer:
    """Sends each request to the next process."""

    def __init__(self, client: httpx2.AsyncClient, places: list[Served]) -> None:
        self._client = client
        self._next = cycle(places)

    async def asks(self, body: dict[str, Any], **headers: str) -> httpx2.Response:
        place = next(self._next)
        return await self._client.post(
            f"{place.url}/mcp", json=body, headers=headers or modern_headers(body)
        )

    async def calls(self, tool: str, **arguments: Any) -> str:
        body = modern_request("tools/call", {"name": tool, "arguments": arguments})
        return json.dumps((await self.asks(body)).json())


async def test_three_processes_are_one_gateway(tmp_path: Path, postgres_url: str) -> None:
    async with AsyncExitStack() as stack:
        started = [
            await stack.enter_async_context(
                serving(tmp_path, "--allow-register", "--store", postgres_url, config=servers())
            )
            for _ in range(3)
        ]
        for place in started:
            await place.hears("For the file of your client")
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=30))
        balancer = Balancer(client, started)

        # What is registered at one is found at all of them, a moment later.
        said = await balancer.calls(
            "register_tool", name="water_plants", description="Water the plants on the balcony."
        )
        assert "isError" not in said or '"isError": false' in said
        for _ in started:
            with anyio.fail_after(20):
                while "water_plants" not in await balancer.calls(
                    "search_tools", query="water the plants"
                ):
                    pass

        # A list is the same wherever it is asked for.
        lists = {(await balancer.asks(modern_request("tools/list"))).content for _ in started}
        assert len(lists) == 1

        # A session of the handshake era lives in one process; the others know nothing of it.
        opened = await balancer.asks(INITIALIZE, **TAKES_BOTH)
        session = {**TAKES_BOTH, "mcp-session-id": opened.headers["mcp-session-id"]}
        statuses = [(await balancer.asks(PING, **session)).status_code for _ in started]
        assert sorted(statuses) == [200, 404, 404]


def make_key(url: str, **grant: Any) -> str:
    """Create a key, as `pegboard keys create` does, and return its secret."""
    with open_store(url, tenant=OPERATOR) as store, ApiKeys(store) as keys:
        return keys.create(KeyGrant(scopes=("call",), **grant)).secret


@pytest.mark.timeout(120)  # three programs start
async def test_three_processes_hold_the_limit_of_a_key_together(
    tmp_path: Path, postgres_url: str
) -> None:
    secret = await anyio.to_thread.run_sync(partial(make_key, postgres_url, calls_per_minute=30))
    clock = {"command": sys.executable, "args": ["-m", "pegboard.cli.demo.clock"]}
    config = {"mcpServers": {"clock": clock}, "gateway": {"auth": {"keys": True}}}
    async with AsyncExitStack() as stack:
        started = [
            await stack.enter_async_context(
                serving(tmp_path, "--store", postgres_url, config=config)
            )
            for _ in range(3)
        ]
        for place in started:
            await place.hears("For the file of your client")
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=30))
        balancer = Balancer(client, started)
        body = modern_request(
            "tools/call", {"name": "search_tools", "arguments": {"query": "time"}}
        )
        headers = {**modern_headers(body), "authorization": f"Bearer {secret}"}

        began = anyio.current_time()
        allowed = 0
        words: list[str] = []
        # Until each of them knows that the limit is reached, and not only that its portion is used.
        while len(words) < 3 or any("at once" in it for it in words[-3:]):
            said = await balancer.asks(body, **headers)
            if said.status_code == 200:
                allowed, words = allowed + 1, []
            else:
                assert said.status_code == 429
                words.append(said.json()["error"]["message"])
        brought = 30 * (anyio.current_time() - began) / 60
        assert 30 <= allowed <= 30 + brought + 3 * 3
