"""The talkative server behind each transport, in each era, and a hub around it."""

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from pegboard import ServerConfig, ToolResult
from pegboard.hub import Hub
from pegboard.upstream import CallContext, Questions, context_of_call
from tests.upstream.board_servers import SERVERS, hub_of
from tests.upstream.http_servers import serving
from tests.upstream.servers.talkative_server import Talkative

ERAS = {"legacy": "legacy", "modern": "2026-07-28"}
SCRIPT = SERVERS / "talkative_server.py"


@asynccontextmanager
async def talkative(
    transport: str, era: str, **fields: Any
) -> AsyncGenerator[tuple[Hub, Talkative]]:
    """A hub whose calls bring their own questions, and a server of this process behind it."""
    server = Talkative()
    fields = {"name": "talk", "protocol": ERAS[era], **fields}
    if transport == "memory":
        config = ServerConfig(transport="memory", server=server.server, **fields)
        async with hub_of(config, relays_questions=True) as hub:
            yield hub, server
        return
    async with serving(server.server.streamable_http_app()) as origin:
        config = ServerConfig(transport="streamable_http", url=f"{origin}/mcp", **fields)
        async with hub_of(config, relays_questions=True) as hub:
            yield hub, server


def script(notes: Path | None = None, **fields: Any) -> ServerConfig:
    """The same server as a process."""
    env = {} if notes is None else {"NOTES": str(notes)}
    fields = {"name": "talk", "env": env, **fields}
    return ServerConfig(transport="stdio", command=sys.executable, args=(str(SCRIPT),), **fields)


async def call(
    hub: Hub,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    server: str = "talk",
    **brought: Any,
) -> ToolResult:
    """Call a tool with what a client brings along."""
    token = context_of_call.set(CallContext(**brought))
    try:
        return await hub.call(f"mcp_{server}_{tool}", arguments)
    finally:
        context_of_call.reset(token)


def lives_in(city: str) -> Questions:
    """A client that answers every question about cities with one."""

    async def answer(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"action": "accept", "content": {"city": city}}

    return Questions(elicitation=answer)


@asynccontextmanager
async def under_way(server: Talkative, *calls: Any) -> AsyncGenerator[None]:
    """Have calls of the tool ``wait`` under way meanwhile."""
    async with anyio.create_task_group() as group:
        for each in calls:
            group.start_soon(each)
        await server.until_waiting(len(calls))
        yield
        server.go_on.set()
