"""The servers of the demo."""

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from pegboard.cli.demo import clock, numbers, texts


@pytest.mark.parametrize(
    ("server", "tool", "arguments", "reason"),
    [
        (numbers.server, "calculate", {"expression": "2+"}, "no expression: invalid syntax."),
        (numbers.server, "calculate", {"expression": "1/0"}, "division by zero."),
        (numbers.server, "calculate", {"expression": "(-1) ** 0.5"}, "not a real number."),
        (numbers.server, "calculate", {"expression": "2 ** 1001"}, "too large."),
        (numbers.server, "calculate", {"expression": "x"}, "Only numbers"),
        (numbers.server, "convert_base", {"digits": "9", "from_base": 8}, "in base 8."),
        (clock.server, "current_time", {"timezone": "Mars/North"}, "no time zone 'Mars/North'"),
        (clock.server, "add_days", {"day": "2026-07-28", "days": 10**9}, "1 to 9999."),
        (texts.server, "decode_base64", {"encoded": "*"}, "not the Base64 of a text"),
    ],
)
async def test_a_tool_that_cannot_do_it_says_why(
    server: MCPServer, tool: str, arguments: dict[str, str | int], reason: str
) -> None:
    with pytest.raises(ToolError, match=reason.replace("(", "[(]")):
        await server.call_tool(tool, arguments)


async def test_blanks_around_an_expression_are_no_matter() -> None:
    assert "6.0" in str(await numbers.server.call_tool("calculate", {"expression": " 2 * 3 "}))
