"""The example servers of ext-apps, at the library for hosts of ext-apps, through the gateway."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.process import TOOLS, gateway_process
from tests.journeys.test_real_clients import first_or_full, run

pytestmark = pytest.mark.timeout(180)

NODE = TOOLS / "node" / "bin" / "node"
NPM = TOOLS / "npm"
HOST = Path(__file__).parent / "programs" / "apps_host.mjs"
NEEDS = ("node", "npm")


def example(name: str) -> dict[str, Any]:
    script = NPM / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    return {"command": str(NODE), "args": [str(script), "--stdio"]}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    servers = {
        "hall": example("server-basic-vanillajs"),
        "yard": example("server-basic-vanillajs"),
        "box": example("server-system-monitor"),
    }
    with gateway_process(servers, tmp_path_factory.mktemp("gateway")) as origin:
        yield origin


def host(address: str, era: str, tool: str, called: str) -> dict[str, Any]:
    """Run a host that opens the page of a tool, whose page calls a tool."""
    # Of a program that is given like this, the packages are looked for in the working directory.
    source = HOST.read_text("utf-8")
    return run(NODE, "--input-type=module", "-e", source, address, era, tool, called, at=NPM)


def page_of(server: str) -> int:
    """Return how long the page of a server is."""
    folder = NPM / "node_modules" / "@modelcontextprotocol" / server / "dist"
    return len((folder / "mcp-app.html").read_text("utf-8"))


@pytest.mark.parametrize("era", first_or_full("modern", "legacy", environments=NEEDS))
def test_a_host_shows_an_app_whose_page_calls_its_tool_for_apps(origin: str, era: str) -> None:
    seen = host(f"{origin}/mcp-full", era, "mcp_box_get-system-info", "poll-system-stats")
    assert seen["announced"]["io.modelcontextprotocol/ui"] == {}
    assert seen["apps"] == ["mcp_box_poll-system-stats"]
    assert "mcp_hall_get-time" in seen["model"]
    assert seen["uri"] == "ui://box/system-monitor/mcp-app.html"
    assert seen["page"] == {
        "uri": seen["uri"],
        "type": "text/html;profile=mcp-app",
        "length": page_of("server-system-monitor"),
    }
    assert seen["reading"]
    assert seen["shown"]["hostname"]
    assert seen["answer"]["structuredContent"]["memory"]


@pytest.mark.parametrize("era", first_or_full("legacy", "modern", environments=NEEDS))
def test_on_the_search_surface_a_result_brings_the_page(origin: str, era: str) -> None:
    seen = host(f"{origin}/mcp", era, "mcp_box_get-system-info", "mcp_box_poll-system-stats")
    assert seen["apps"] == []
    assert not [it for it in seen["model"] if it.startswith("mcp_")]
    assert seen["uri"] == "ui://box/system-monitor/mcp-app.html"
    assert seen["shown"]["hostname"]
    assert seen["answer"]["structuredContent"]["memory"]


@pytest.mark.parametrize("era", first_or_full("modern", "legacy", environments=NEEDS))
def test_two_servers_with_the_same_page_and_the_same_tool(origin: str, era: str) -> None:
    for server in ("hall", "yard"):
        tool = f"mcp_{server}_get-time"
        mixed = host(f"{origin}/mcp-full", era, tool, "get-time")
        assert mixed["uri"] == f"ui://{server}/get-time/mcp-app.html"
        assert mixed["page"]["length"] == page_of("server-basic-vanillajs")
        # The page alone does not say which of the two it means; its own address does.
        assert "mcp_hall_get-time" in mixed["answer"]["failed"]
        alone = host(f"{origin}/mcp-full/{server}", era, tool, "get-time")
        assert alone["answer"]["structuredContent"]["time"]
