"""Servers that do not say what they have until they are let."""

import sys
from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext

from pegboard import ServerConfig
from tests.upstream.board_servers import Bench, Handler, memory, script

STUCK: Mapping[str, Any] = {
    "command": sys.executable,
    "args": ["-c", "import sys; sys.stdin.read()"],
}
"""The entry of a server that never responds, and ends when its input is closed."""


class LateBench(Bench):
    """A server that lists its tools when it is let."""

    def __init__(self, **tools: Handler) -> None:
        super().__init__()
        self.tools.update(tools)
        self.let = anyio.Event()
        self.asked = anyio.Event()

    async def _list(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self.asked.set()
        await self.let.wait()
        return await super()._list(context, params)

    def config(self, name: str, **fields: Any) -> ServerConfig:
        return memory(name, self, **fields)


def light() -> dict[str, Any]:
    """Return the entry of a server that is up at once."""
    found = script("light")
    return {"command": found.command, "args": list(found.args), "protocol": "legacy"}
