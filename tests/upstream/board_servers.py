"""In-memory servers, built in a line, and the hub around them."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions

from pegboard.config import ServerConfig, Timeouts
from pegboard.hub import Hub, HubOptions
from pegboard.upstream import NoCatalogCache

SERVERS = Path(__file__).parent / "servers"
Handler = Callable[[dict[str, Any]], Awaitable[types.CallToolResult | str] | str]


class Bench:
    """A server whose tools can be changed while it runs, and which counts what it was asked."""

    def __init__(self, page: int = 1000, **tools: Handler) -> None:
        self.tools: dict[str, Handler] = dict(tools)
        self.schemas: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.lists = 0
        self.cancelled = anyio.Event()
        self.context: ServerRequestContext[Any] | None = None
        self._page = page
        self.server: Server[Any] = Server(
            "bench", version="1.0", on_list_tools=self._list, on_call_tool=self._call
        )
        self.options = NotificationOptions(tools_changed=True)

    async def _list(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self.lists += 1
        self.context = context
        start = int(params.cursor) if params and params.cursor else 0
        names = list(self.tools)
        tools = [
            types.Tool(
                name=name, description=f"Does {name}.", input_schema=self.schemas.get(name, OPEN)
            )
            for name in names[start : start + self._page]
        ]
        more = start + self._page < len(names)
        return types.ListToolsResult(
            tools=tools, next_cursor=str(start + self._page) if more else None
        )

    async def _call(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        self.context = context
        self.calls.append(params.name)
        try:
            value = self.tools[params.name](params.arguments or {})
            answer = value if isinstance(value, str) else await value
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        if isinstance(answer, types.CallToolResult):
            return answer
        return types.CallToolResult(content=[types.TextContent(text=answer)])


OPEN: dict[str, Any] = {"type": "object"}


def memory(name: str, bench: Bench, **fields: Any) -> ServerConfig:
    return ServerConfig(name=name, transport="memory", server=bench.server, **fields)


def script(name: str, file: str = "light_server.py", **fields: Any) -> ServerConfig:
    """A server that is a script in `servers/`, run by this Python; the light one by default."""
    fields.setdefault("protocol", "legacy" if file == "light_server.py" else "auto")
    return ServerConfig(
        name=name,
        transport="stdio",
        command=sys.executable,
        args=("-S", "-E", str(SERVERS / file))
        if file != "echo_server.py"
        else (str(SERVERS / file),),
        **fields,
    )


def hub_of(*configs: ServerConfig, **options: Unpack[HubOptions]) -> Hub:
    """A hub that remembers nothing, unless told to."""
    options.setdefault("catalog_cache", NoCatalogCache())
    return Hub(configs, **options)


def limits(**seconds: float) -> Timeouts:
    return Timeouts(**seconds)


async def until(
    holds: Callable[[], object], what: str = "the condition", *, seconds: float = 30
) -> None:
    """Wait until something is true that no event tells of."""
    with anyio.move_on_after(seconds):
        while not holds():  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.005)
        return
    raise AssertionError(f"{what} did not come true within {seconds:g} s")


def text_of(result: Mapping[str, Any]) -> str:
    return result["content"][0]["text"]
