"""The examples of the LiteAI document, but for the imports, the server and the model."""

import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from pegboard.compat.liteai import (
    LocalMcpToolset,
    LocalServerParams,
    RemoteMcpToolset,
    RemoteServerParams,
    prepare_tools,
)
from tests.upstream.http_servers import build_server, serving

SERVER = str(Path(__file__).parents[1] / "upstream/servers/echo_server.py")


class UserMessage:
    def __init__(self, content: str) -> None:
        self.content = content


class LlmRequestParams:
    def __init__(self, model: str, messages: list[UserMessage], tools: list[Any]) -> None:
        self.messages = messages
        self.tools = tools


class LLM:
    """Stands in for a model: it sees definitions, and calls `echo` with what the user says."""

    def __init__(self, api_key: str) -> None:
        self.seen: list[dict[str, Any]] = []

    async def generate_text(self, params: LlmRequestParams) -> str:
        self.seen = prepare_tools(params.tools)
        by_name = {tool.__name__: tool for tool in params.tools}
        return await by_name["echo"](text=params.messages[0].content)


@pytest.mark.covers("R-LITE-3", "R-LITE-27", "R-LITE-29")
async def test_basic_use() -> None:
    mcp_toolset = LocalMcpToolset(
        name="my-mcp-server",
        params=LocalServerParams(
            command=sys.executable,
            args=[SERVER],
        ),
    )

    await mcp_toolset.connect()

    try:
        llm = LLM(api_key="...")

        tools = mcp_toolset.get_tools()

        response = await llm.generate_text(
            LlmRequestParams(
                model="gpt-4",
                messages=[UserMessage(content="Use the MCP tools")],
                tools=tools,
            )
        )
    finally:
        await mcp_toolset.disconnect()

    assert response == "Use the MCP tools"
    assert llm.seen[0] == {
        "type": "function",
        "function": {
            "name": "echo",
            "description": "Give back the text.",
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
            },
        },
    }
    assert not mcp_toolset.is_connected


@pytest.mark.covers("R-LITE-15", "R-LITE-27")
async def test_with_a_context_manager() -> None:
    llm = LLM(api_key="...")
    params = LocalServerParams(command=sys.executable, args=[SERVER])
    async with LocalMcpToolset(name="local", params=params) as mcp_toolset:
        tools = mcp_toolset.get_tools()
        response = await llm.generate_text(
            LlmRequestParams(
                model="gpt-4",
                messages=[UserMessage(content="grüß Gott")],
                tools=tools,
            )
        )
    assert response == "grüß Gott"


@pytest.mark.covers("R-LITE-4", "R-LITE-27")
async def test_a_remote_server_with_a_bearer_token() -> None:
    shown: set[bytes | None] = set()
    app = build_server().streamable_http_app()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            shown.add(dict(scope["headers"]).get(b"authorization"))
        await app(scope, receive, send)

    async with serving(guarded) as origin:
        mcp_toolset = RemoteMcpToolset(
            name="remote-server",
            params=RemoteServerParams(
                url=f"{origin}/mcp",
                bearer_token="your-token",
            ),
        )

        await mcp_toolset.connect()
        tools = mcp_toolset.get_tools()
        assert await tools[0](text="hi") == "hi"
        await mcp_toolset.disconnect()
    assert shown == {b"Bearer your-token"}
