"""The local API: only the user who runs the process can call it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Never

import httpx2
import pytest

from pegboard import Hub
from pegboard.errors import ServerNotFoundError
from pegboard.server import App, RequestPipeline
from pegboard.server.http.authentication import HttpAuthenticator
from pegboard.server.http.local_api import LocalApi, LocalToken
from pegboard.server.startup import Startup
from pegboard.upstream import NoCatalogCache
from tests.gateway.servers import bench, hub
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import served


@asynccontextmanager
async def asking(it: Hub) -> AsyncGenerator[tuple[httpx2.AsyncClient, str]]:
    """Give the client of the owner of a process, and where the process answers it."""
    owner = LocalToken()
    opening = Startup(it)
    await opening.run()
    local_api = LocalApi(it, startup=opening, local_token=owner)
    app = App(
        RequestPipeline(FakeGateway()),
        authenticator=HttpAuthenticator(local_token=owner),
        local_api=local_api,
    )
    headers = {"authorization": f"Bearer {owner.token}"}
    async with served(app) as url, httpx2.AsyncClient(headers=headers) as client:
        yield client, f"{url}/owner"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"text": "\xff\xfe"}',
        b'{"text": 5}',
        b'{"text": "\\ud800"}',
        b"[" * 60000,
    ],
)
async def test_a_search_that_cannot_be_read_is_a_bad_request(body: bytes) -> None:
    async with hub(bench("calc", add=str)) as it, asking(it) as (client, url):
        refused = await client.post(f"{url}/search", content=body)
        assert (refused.status_code, "error" in refused.json()) == (400, True)
        found = await client.post(f"{url}/search", json={"text": "add"})
        assert found.status_code == 200


class MidReload(Hub):
    """One whose servers are just being replaced, while their tools are still on the board."""

    def server(self, name: str) -> Never:
        raise ServerNotFoundError(name, known=[])


async def test_tools_are_listed_while_their_server_is_being_replaced() -> None:
    async with (
        MidReload([bench("calc", add=str)], catalog_cache=NoCatalogCache()) as it,
        asking(it) as (client, url),
    ):
        listed = await client.get(f"{url}/tools")
        assert listed.status_code == 200
        shown = [(it["tool"]["name"], it["raw"]) for it in listed.json()]
        assert shown == [("mcp_calc_add", None)]
