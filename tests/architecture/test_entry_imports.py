"""What each way into Pegboard imports: a test fails when an entry brings in a package more.

An entry that imports less than is written here fails too: write down the shorter list.
"""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import httpx2
import pytest

from tests.cli.handy import Home

WATCHED = {
    *("anyio", "asyncio", "msgspec", "pydantic", "jsonschema", "jsonschema_rs"),
    *("mcp", "mcp_types", "aiohttp", "httpx2", "httptools", "websockets"),
    *("starlette", "sse_starlette", "uvicorn", "prometheus_client", "opentelemetry", "jinja2"),
    *("numpy", "Stemmer", "re2", "bpe_openai", "docstring_parser"),
    *("typer", "rich", "tomlkit", "platformdirs"),
    *("cryptography", "jwt", "keyring"),
    *("sqlite3", "psycopg"),
}
"""Packages that cost time or memory; the rest is small, or a part of one of these."""

COMMAND = "from pegboard.cli.main import main; main({words!r})"
HUB = """
import anyio
from pegboard import Hub

async def use():
    async with Hub.open({file!r}) as hub:
        {do}

anyio.run(use)
"""
MARK = "@ loaded: "
TELL = f"\nimport sys; sys.stderr.write('\\n{MARK}' + ' '.join(sys.modules))"

VALUES = {"anyio", "asyncio", "jsonschema_rs", "msgspec", "platformdirs", "pydantic"}
"""What a hub needs for the tools and settings of any server."""
CONNECTING = {"aiohttp", "opentelemetry"}
"""What a hub needs besides to talk to a process or over HTTP."""
SERVING = {
    *("mcp", "mcp_types", "httpx2", "httptools"),
    # The MCP SDK imports these itself, whatever part of it is used.
    *("cryptography", "sse_starlette", "starlette", "uvicorn"),
}
"""What a gateway needs besides."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def watched_in(said: str) -> set[str]:
    """Return the watched packages of what a process says it has loaded."""
    assert MARK in said, said
    loaded = said.rpartition(MARK)[2].split()
    return {name.partition(".")[0] for name in loaded} & WATCHED


def loaded_by(code: str, home: Home) -> set[str]:
    """Run code in a process of its own, and return what it has loaded at its end."""
    ran = subprocess.run(
        [sys.executable, "-c", code + TELL],
        capture_output=True,
        encoding="utf-8",
        env=home.environ,
        cwd=home.folder,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return watched_in(ran.stderr)


@pytest.mark.parametrize("code", ["import pegboard", COMMAND.format(words=["--help"])])
def test_the_package_alone_and_its_help_import_nothing(code: str, home: Home) -> None:
    assert loaded_by(code, home) == set()


def test_a_search_at_the_prompt_imports_what_ranks_tools(home: Home) -> None:
    # Once the servers were asked for their tools, a search starts none of them.
    assert home.run("tools").returncode == 0
    loaded = loaded_by(COMMAND.format(words=["search", "count"]), home)
    assert loaded == {"Stemmer", "msgspec", "numpy", "platformdirs", "sqlite3", "typer"}


def test_a_hub_without_servers_imports_nothing_of_a_wire(home: Home) -> None:
    home.configure({})
    code = HUB.format(file=str(home.folder / "mcp.json"), do="pass")
    assert loaded_by(code, home) == VALUES


def test_a_hub_that_calls_a_server_imports_an_http_client_and_not_the_sdk(home: Home) -> None:
    code = HUB.format(file=str(home.folder / "mcp.json"), do="await hub.call('mcp_handy_count')")
    assert loaded_by(code, home) == VALUES | CONNECTING


def test_a_gateway_that_has_searched_imports_neither_a_store_nor_the_terminal(home: Home) -> None:
    code = COMMAND.format(words=["serve", "--demo", "--port", "0"]) + TELL
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=home.environ,
        cwd=home.folder,
    )
    try:
        said = said_until("For the file of your client", process)
        found = re.search(r"http://[^/ ]+/mcp", said)
        assert found is not None
        # The demo servers may still be starting on a busy machine.
        while "mcp_notes_add_note" not in search_through(found[0]):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=30)[1]
    finally:
        process.kill()
        process.wait()
    searching = {"Stemmer", "numpy", "re2"}
    # No templates: no page was asked for.
    assert watched_in(rest) == VALUES | CONNECTING | SERVING | searching | {"typer"}


@pytest.mark.parametrize("is_on", [True, False])
def test_pages_for_people_are_imported_when_one_is_asked_for_unless_they_are_off(
    is_on: bool, home: Home
) -> None:
    config = home.folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {}, "gateway": {"console": is_on}}), "utf-8")
    code = COMMAND.format(words=["serve", "--config", str(config), "--port", "0"]) + TELL
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=home.environ,
        cwd=home.folder,
    )
    try:
        found = re.search(r"(http://[^/ ]+)/mcp", said_until("For the file of your", process))
        assert found is not None
        with httpx2.Client() as client:
            status = client.get(f"{found[1]}/console/login").status_code
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=30)[1]
    finally:
        process.kill()
        process.wait()
    assert status == (200 if is_on else 404)
    assert ("jinja2" in watched_in(rest)) == is_on
    assert (" pegboard.console " in rest) == is_on


def said_until(words: str, process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = ""
    while words not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


def search_through(url: str) -> str:
    """Search for a tool at a gateway, and return its answer."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "search_tools", "arguments": {"query": "keep a note"}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    request = urllib.request.Request(
        url,
        json.dumps(body).encode(),
        {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "search_tools",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()
