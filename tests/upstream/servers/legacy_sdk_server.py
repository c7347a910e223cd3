"""A server built on the SDK of the handshake era (`mcp<2`); runs in `.tools/legacy` only."""

from mcp.server.fastmcp import FastMCP  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]

server = FastMCP("old")  # pyright: ignore[reportUnknownVariableType]


@server.tool()  # pyright: ignore[reportUnknownMemberType, reportUntypedFunctionDecorator]
def shout(text: str) -> str:
    "Say it louder."
    return text.upper()


if __name__ == "__main__":
    server.run()  # pyright: ignore[reportUnknownMemberType]
