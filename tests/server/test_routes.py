"""Which address shows which face."""

import pytest

from pegboard.gateway import Face
from pegboard.server.http.routes import Route, route_of


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/mcp", Route("mcp", Face(surface="search"))),
        ("/mcp/", Route("mcp", Face(surface="search"))),
        ("/mcp-full", Route("mcp", Face(surface="full"))),
        ("/mcp-search", Route("mcp", Face(surface="search"))),
        ("/mcp/github", Route("mcp", Face(surface="search", group="github"))),
        ("/mcp-full/git hub/", Route("mcp", Face(surface="full", group="git hub"))),
        ("/sse", Route("sse", Face(surface="search"))),
        ("/sse-full/a", Route("sse", Face(surface="full", group="a"))),
    ],
)
def test_a_path_chooses_wire_surface_and_group(path: str, place: Route) -> None:
    assert route_of(path, "search") == place


def test_the_plain_path_shows_what_the_operator_chose() -> None:
    assert route_of("/mcp/a", "full") == Route("mcp", Face(surface="full", group="a"))


@pytest.mark.parametrize(
    "path", ["", "/", "/mcpx", "/mcp-other", "/mcp/a/b", "/MCP", "//mcp", "/mcp/" + "x" * 201]
)
def test_elsewhere_is_nothing(path: str) -> None:
    assert route_of(path, "search") is None
