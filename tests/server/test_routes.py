"""Which address shows which face."""

import pytest

from pegboard.gateway import Face
from pegboard.server.http.routes import Place, place_of


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/mcp", Place("mcp", Face(surface="search"))),
        ("/mcp/", Place("mcp", Face(surface="search"))),
        ("/mcp-full", Place("mcp", Face(surface="full"))),
        ("/mcp-search", Place("mcp", Face(surface="search"))),
        ("/mcp/github", Place("mcp", Face(surface="search", group="github"))),
        ("/mcp-full/git hub/", Place("mcp", Face(surface="full", group="git hub"))),
        ("/sse", Place("sse", Face(surface="search"))),
        ("/sse-full/a", Place("sse", Face(surface="full", group="a"))),
    ],
)
def test_a_path_chooses_wire_surface_and_group(path: str, place: Place) -> None:
    assert place_of(path, "search") == place


def test_the_plain_path_shows_what_the_operator_chose() -> None:
    assert place_of("/mcp/a", "full") == Place("mcp", Face(surface="full", group="a"))


@pytest.mark.parametrize(
    "path", ["", "/", "/mcpx", "/mcp-other", "/mcp/a/b", "/MCP", "//mcp", "/mcp/" + "x" * 201]
)
def test_elsewhere_is_nothing(path: str) -> None:
    assert place_of(path, "search") is None
