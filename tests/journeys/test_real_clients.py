"""Real third-party clients, each in its own environment, at a gateway in its own process."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client

from tests.journeys.journey import text_of
from tests.journeys.process import ROOT, TOOLS, gateway_process, serve_command

# Some take seconds to import what they need, more on a busy machine.
pytestmark = pytest.mark.timeout(180)

PROGRAMS = Path(__file__).parent / "programs"
NODE = TOOLS / "node" / "bin" / "node"
INSPECTOR = TOOLS / "npm/node_modules/@modelcontextprotocol/inspector/clients/launcher/build"
OWN = {"search_tools", "get_tool_definition", "list_tools_by_category", "call_tool", "read_result"}
ERAS = {"legacy": "legacy", "modern": "2026-07-28"}


def first_or_full(
    first: str, other: str, *, environments: tuple[str, ...]
) -> "list[pytest.ParameterSet]":  # a name that older releases of pytest do not have
    """Return two parameters: `make interop` tries the first, `make interop-full` both."""
    return [
        pytest.param(first, marks=pytest.mark.interop(*environments)),
        pytest.param(other, marks=pytest.mark.interop_full(*environments)),
    ]


def shouting() -> dict[str, Any]:
    """A small server with a tool to find and to call."""
    script = str(PROGRAMS / "shouting_server.py")
    return {"old": {"command": sys.executable, "args": [script]}}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with gateway_process(shouting(), tmp_path_factory.mktemp("gateway")) as origin:
        yield origin


def run(*command: object, at: Path = ROOT) -> dict[str, Any]:
    """Run a program, and return the last line that it prints."""
    done = subprocess.run(
        [str(it) for it in command],
        capture_output=True,
        encoding="utf-8",
        timeout=150,
        check=False,
        cwd=at,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def python_of(environment: str) -> Path:
    return TOOLS / environment / "bin" / "python"


def check(seen: dict[str, Any]) -> None:
    assert set(seen["tools"]) >= OWN
    assert "mcp_old_shout(text: str" in seen["found"]
    assert "PEG" in seen["called"]


@pytest.mark.covers("R-REG-1", "R-REG-2")
@pytest.mark.parametrize("place", first_or_full("/mcp", "/sse", environments=("legacy",)))
def test_the_sdk_of_the_last_era_finds_and_calls(origin: str, place: str) -> None:
    check(run(python_of("legacy"), PROGRAMS / "sdk1_client.py", f"{origin}{place}"))


@pytest.mark.parametrize("mode", first_or_full("2026-07-28", "legacy", environments=("fastmcp",)))
def test_the_client_of_fastmcp_finds_and_calls(origin: str, mode: str) -> None:
    check(run(python_of("fastmcp"), PROGRAMS / "fastmcp_client.py", f"{origin}/mcp", mode))


@pytest.mark.interop("langchain")
def test_the_adapters_of_langchain_find_and_call(origin: str) -> None:
    check(run(python_of("langchain"), PROGRAMS / "langchain_client.py", f"{origin}/mcp"))


@pytest.mark.parametrize("era", first_or_full("modern", "legacy", environments=("node", "npm")))
def test_the_inspector_lists_and_calls(origin: str, era: str) -> None:
    command = [NODE, INSPECTOR / "index.js", "--cli", f"{origin}/mcp-full", "--protocol-era", era]
    quietly = ["--transport", "http", "--format", "json", "--quiet", "--method"]
    listed = run(*command, *quietly, "tools/list")
    assert "mcp_old_shout" in json.dumps(listed)
    arguments = ["--tool-name", "mcp_old_shout", "--tool-arg", "text=peg"]
    assert "PEG" in json.dumps(run(*command, *quietly, "tools/call", *arguments))


@pytest.mark.covers("R-REG-1", "R-REG-2")
@pytest.mark.parametrize("era", ERAS)
async def test_the_sdk_of_today_finds_and_calls_over_http(origin: str, era: str) -> None:
    async with Client(f"{origin}/mcp", mode=ERAS[era]) as client:
        await find_and_call(client)


@pytest.mark.covers("R-REG-2")
async def test_the_sdk_of_today_finds_and_calls_over_sse(origin: str) -> None:
    async with Client(sse_client(f"{origin}/sse"), mode="legacy") as client:
        await find_and_call(client)


@pytest.mark.covers("R-REG-2", "R-REG-5")
@pytest.mark.parametrize("era", ERAS)
async def test_the_sdk_of_today_finds_and_calls_over_stdio(tmp_path: Path, era: str) -> None:
    command, *arguments = [*serve_command(shouting(), tmp_path), "--stdio"]
    parameters = StdioServerParameters(command=command, args=arguments, cwd=ROOT)
    async with Client(parameters, mode=ERAS[era]) as client:
        await find_and_call(client)


async def find_and_call(client: Client) -> None:
    tools = [tool.name for tool in (await client.list_tools()).tools]
    # Over stdio the first answers come before every server is up.
    with anyio.fail_after(60):
        while True:
            found = await client.call_tool("search_tools", {"query": "upper case letters"})
            if "mcp_old_shout" in text_of(found):
                break
    described = await client.call_tool("get_tool_definition", {"tool_name": "mcp_old_shout"})
    assert '"required"' in text_of(described)
    call = {"name": "mcp_old_shout", "arguments": {"text": "peg"}}
    called = await client.call_tool("call_tool", call)
    check({"tools": tools, "found": text_of(found), "called": text_of(called)})
