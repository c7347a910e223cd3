"""Credentials stay where they belong: a client's at the gateway, a server's behind it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anyio.to_thread import run_sync
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pegboard.auth import ApiKeys, AuthSettings, KeyGrant
from pegboard.model.principal import OPERATOR
from pegboard.storage import open_store
from tests.auth.test_over_http import served
from tests.server.serving import modern_headers, modern_request
from tests.upstream.http_servers import serving

OURS = "upstream-canary-7f3a9c1e5b"
"""What the gateway shows to its servers."""


class Recording:
    """Keeps everything that is sent to an application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.heard = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.heard += str(scope.get("headers", "")) + str(scope.get("query_string", ""))

        async def listening() -> Message:
            message = await receive()
            self.heard += str(message.get("body", ""))
            return message

        await self._app(scope, listening, send)


def friendly() -> MCPServer:
    made = MCPServer("friendly", log_level="CRITICAL")

    @made.tool()
    async def echo(text: str) -> str:
        return text

    @made.resource("friendly://readme")
    async def readme() -> str:
        return "nothing"

    return made


async def rude(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse everybody, and repeat aloud what they showed."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    headers = dict(scope["headers"])
    body = b"Your token is bad: " + headers.get(b"authorization", b"")
    await send({"type": "http.response.start", "status": 403, "headers": []})
    await send({"type": "http.response.body", "body": body})


Ask = Callable[..., Awaitable[str]]


@pytest.mark.parametrize("face", ["/mcp", "/mcp-full"])
async def test_no_credential_crosses_the_gateway(tmp_path: Path, face: str) -> None:
    path = tmp_path / "pegboard.db"

    def make_key() -> str:
        with open_store(path, tenant=OPERATOR) as store, ApiKeys(store) as keys:
            return keys.create(KeyGrant(scopes=("admin",))).secret

    theirs = await run_sync(make_key)
    recording = Recording(friendly().streamable_http_app())
    async with serving(recording) as good, serving(rude) as bad:
        servers = {
            "friendly": {"url": f"{good}/mcp", "bearer_token": OURS},
            "rude": {"url": f"{bad}/mcp", "headers": {"Authorization": f"Bearer {OURS}"}},
        }
        config: dict[str, Any] = {"mcpServers": servers}
        async with (
            served(AuthSettings(keys=True), path, config=config) as url,
            httpx2.AsyncClient(cookies={"session": theirs}, timeout=30) as http,
        ):
            answers = ""
            requests = [
                modern_request("server/discover"),
                modern_request("tools/list"),
                modern_request("resources/list"),
                modern_request("prompts/list"),
                modern_request("resources/read", {"uri": "friendly+friendly://readme"}),
                modern_request("resources/read", {"uri": "rude+rude://readme"}),
                modern_request("resources/read", {"uri": "registry://stats"}),
                *(
                    modern_request("tools/call", {"name": name, "arguments": arguments})
                    for name, arguments in (
                        ("mcp_friendly_echo", {"text": "hello"}),
                        ("mcp_rude_echo", {"text": "hello"}),
                        ("call_tool", {"name": "mcp_friendly_echo", "arguments": {"text": "hi"}}),
                        ("call_tool", {"name": "mcp_rude_echo"}),
                        ("search_tools", {"query": "echo"}),
                    )
                ),
            ]
            for body in requests:
                headers = {**modern_headers(body), "x-api-key": theirs}
                response = await http.post(url + face, json=body, headers=headers)
                answers += response.text + str(response.headers)
            for page in ("/healthz", "/readyz", "/metrics"):
                response = await http.get(url + page, headers={"x-api-key": theirs})
                answers += response.text
    assert "hello" in answers
    assert OURS in recording.heard
    assert OURS not in answers
    assert theirs not in recording.heard
    assert theirs.rpartition("_")[2] not in recording.heard + answers
