"""The server card of the gateway: what a client reads before it connects."""

from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from pegboard.auth import AuthSettings
from tests.server.registries import CARD, NOWHERE, check, published
from tests.server.serving import MODERN

PATHS = ("/mcp/server-card", "/.well-known/mcp/server-card.json")


@pytest.mark.parametrize("path", PATHS)
async def test_the_card_says_where_and_how_to_connect(path: str) -> None:
    async with published({"mail": NOWHERE}, server_card=True, name="tools") as (client, _):
        page = await client.get(path, headers={"origin": "https://pages.example.com"})
        assert page.headers["content-type"] == "application/mcp-server-card+json"
        assert page.headers["access-control-allow-origin"] == "*"
        # Its address is that of `Host`, so no cache keeps it for another client.
        assert page.headers["cache-control"] == "private, max-age=3600"
        card = page.json()
        check(card, CARD)
        assert (card["name"], card["title"]) == ("local.tools/tools", "tools")
        (remote,) = card["remotes"]
        with anyio.fail_after(10):
            async with Client(streamable_http_client(remote["url"])) as session:
                info = session.server_info
                assert info is not None
                assert (info.name, info.version) == (card["title"], card["version"])
                assert session.protocol_version in remote["supportedProtocolVersions"]
        assert MODERN in remote["supportedProtocolVersions"]
        assert "mail" not in page.text
        # The registry is another setting.
        assert (await client.get("/v0.1/servers")).status_code == 404


async def test_everyone_may_read_the_card_and_nothing_else(tmp_path: Path) -> None:
    auth = AuthSettings(keys=True, resource="https://tools.example.com/mcp")
    async with published(
        {"mail": NOWHERE}, auth=auth, storage=str(tmp_path / "a.db"), server_card=True
    ) as (client, _):
        for path in PATHS:
            card = (await client.get(path)).json()
            check(card, CARD)
            assert card["name"] == "com.example.tools/pegboard"
            assert card["remotes"][0]["url"] == "https://tools.example.com/mcp"
            assert card["remotes"][0]["headers"][0]["name"] == "Authorization"
            preflight = await client.options(path, headers={"origin": "https://a.example.com"})
            assert preflight.status_code == 204
            head = await client.head(path)
            assert (head.status_code, head.headers["cache-control"]) == (
                200,
                "public, max-age=3600",
            )
            evil = await client.get(path, headers={"host": "evil example"})
            assert "evil" not in evil.text
        assert (await client.get("/mcp/server-cards")).status_code == 401


async def test_a_group_with_the_name_of_the_path_is_still_reached() -> None:
    async with published({"server-card": NOWHERE}, server_card=True) as (client, _):
        with anyio.fail_after(10):
            url = f"{str(client.base_url).rstrip('/')}/mcp/server-card"
            async with Client(streamable_http_client(url), mode="legacy") as session:
                info = session.server_info
                assert info is not None
                assert info.name == "pegboard"
