"""The drawing of README: clients on the left, servers on the right, the board between them."""

from scripts.drawing import arrow, box, label, peg, picture

__all__ = ["page"]

_CLIENTS = ("Claude", "Cursor, VS Code …", "any MCP client", "your own agent")
_SERVERS = (
    ("github", "npx …"),
    ("files", "uvx …"),
    ("database", "https://…/mcp"),
    ("your functions", "@tool"),
)
_OWN = ("search_tools", "get_tool_definition", "call_tool", "read_result")
_TOP, _STEP = 60, 68


def page() -> str:
    """Return the drawing."""
    rows = [_TOP + _STEP * row for row in range(4)]
    parts = [
        label((22, 34), "one entry each", kind="note"),
        label((686, 34), "started and watched"),
    ]
    parts += [box((20, y, 190, 48), name) for y, name in zip(rows, _CLIENTS, strict=True)]
    parts += [box((680, y, 190, 48), *words) for y, words in zip(rows, _SERVERS, strict=True)]
    parts += [arrow((210, y + 24), (288, 185)) for y in rows]
    parts.append(box((290, 24, 310, 308), kind="board"))
    parts += [peg(x, y) for x in range(306, 590, 21) for y in (40, 318)]
    parts.append(label((445, 70), "pegboard serve", kind="name", middle=True))
    parts.append(label((445, 88), "/mcp, or over stdio", middle=True))
    parts += [
        box((326, 102 + 34 * row, 238, 28), name, kind="core") for row, name in enumerate(_OWN)
    ]
    parts.append(label((445, 258), "hundreds of tools behind a handful", middle=True))
    parts.append(label((445, 276), "found by what they do", middle=True))
    parts.append(label((445, 294), "keys, limits, deadlines, audit", middle=True))
    parts += [arrow((600, 185), (678, y + 24)) for y in rows]
    title = "MCP clients reach many servers through one gateway"
    return picture(890, 356, title=title, parts=parts)
