"""Servers in memory for the tests of ExcelManus's client, and where a test can run."""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
import pytest
from mcp.server import Server

from pegboard.config import ServerConfig, Timeouts

SearchResponse = Callable[[str, dict[str, Any]], types.CallToolResult]
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
OBJECT: dict[str, Any] = {"type": "object"}


def tool(name: str, schema: dict[str, Any] | None = None, description: str = "") -> types.Tool:
    return types.Tool(
        name=name, input_schema=OBJECT if schema is None else schema, description=description
    )


def echo(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=f"{name} {arguments}")])


def in_memory(
    name: str,
    *pages: list[types.Tool],
    answer: SearchResponse = echo,
    before_listing: Callable[[], Awaitable[object]] | None = None,
    **timeouts: float,
) -> ServerConfig:
    """A server that lists these pages of tools."""

    async def on_list(_: Any, params: types.PaginatedRequestParams | None) -> Any:
        if before_listing is not None:
            await before_listing()
        number = int(params.cursor) if params and params.cursor else 0
        more = str(number + 1) if number + 1 < len(pages) else None
        return types.ListToolsResult(tools=pages[number], next_cursor=more)

    async def on_call(_: Any, params: types.CallToolRequestParams) -> Any:
        return answer(params.name, params.arguments or {})

    server: Server[Any] = Server("memory", version="1", on_list_tools=on_list, on_call_tool=on_call)
    return ServerConfig(name=name, transport="memory", server=server, timeouts=Timeouts(**timeouts))
