"""One server in memory whose tools answer in every way that an agent framework has to handle."""

from typing import Any

import anyio
import mcp_types as types

from tests.upstream.board_servers import Bench

PIXEL = "iVBORw0KGgo="
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/city"}, "days": {"type": "integer", "default": 3}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"city": {"type": "string", "minLength": 2, "x-kind": "place"}},
}


def forecast(arguments: dict[str, Any]) -> str:
    return f"{arguments['city']}: sun for {arguments.get('days', 3)} days"


async def picture(arguments: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[
            types.TextContent(text="A pixel."),
            types.ImageContent(data=PIXEL, mime_type="image/png"),
            types.AudioContent(data="UklGRg==", mime_type="audio/wav"),
        ]
    )


async def count(arguments: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text='{"cities":[1,2]}')],
        structured_content={"cities": [1, 2]},
    )


async def fail(arguments: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text="There is no map of Atlantis.")], is_error=True
    )


class Maps(Bench):
    """A server of maps; `waiting` is set once its tool `wait` has begun."""

    def __init__(self) -> None:
        async def wait(arguments: dict[str, Any]) -> str:
            self.waiting.set()
            await anyio.sleep_forever()
            return ""

        super().__init__(forecast=forecast, picture=picture, count=count, fail=fail, wait=wait)
        self.waiting = anyio.Event()
        self.schemas["forecast"] = CITY
