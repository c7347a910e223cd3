"""Servers by other authors: from PyPI, from npm, and one on the SDK of the last era."""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pegboard import Hub, ServerConfig, ServerState
from tests.upstream.board_servers import SERVERS, hub_of

TOOLS = Path(__file__).parents[2] / ".tools"
LEGACY = TOOLS / "legacy" / "bin" / "python"
NODE = TOOLS / "node" / "bin" / "node"
NPM = TOOLS / "npm" / "node_modules" / ".bin"


def python_server(module: str, *args: str) -> ServerConfig:
    command = ("-m", module, *args)
    return ServerConfig(name=module, transport="stdio", command=sys.executable, args=command)


def node_server(name: str, *args: str, home: Path) -> ServerConfig:
    script = str(NPM / f"mcp-server-{name}")
    env = {"HOME": str(home), "MEMORY_FILE_PATH": str(home / "memory.jsonl")}
    return ServerConfig(
        name=name, transport="stdio", command=str(NODE), args=(script, *args), env=env
    )


def ready(hub: Hub, names: Iterable[str]) -> None:
    for name in names:
        assert hub.servers[name].state == ServerState.READY, hub.servers[name]


async def test_the_time_server_tells_the_time() -> None:
    async with hub_of(python_server("mcp_server_time")) as hub:
        result = await hub.call("mcp_mcp_server_time_get_current_time", {"timezone": "UTC"})
        assert '"timezone": "UTC"' in result.text()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("There is no git here.")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "First of all"], check=True)
    return tmp_path


async def test_the_git_server_shows_the_log(repository: Path) -> None:
    async with hub_of(python_server("mcp_server_git")) as hub:
        log = next(name for name in hub.registry if name.endswith("git_log"))
        result = await hub.call(log, {"repo_path": str(repository)})
        assert "First of all" in result.text()


@pytest.mark.interop("legacy")
async def test_a_server_on_the_sdk_of_the_last_era_is_found_out_and_called() -> None:
    script = str(SERVERS / "legacy_sdk_server.py")
    config = ServerConfig(name="old", transport="stdio", command=str(LEGACY), args=(script,))
    async with hub_of(config) as hub:
        assert hub.servers["old"].era == "legacy"
        assert (await hub.call("mcp_old_shout", {"text": "hi"})).value() == {"result": "HI"}


@pytest.mark.interop("legacy")
async def test_a_task_of_the_sdk_of_the_last_era_asks_and_ends() -> None:
    script = str(SERVERS / "task_sdk_server.py")
    config = ServerConfig(name="old", transport="stdio", command=str(LEGACY), args=(script,))

    def answer(_: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"name": f"Ann, asked {params['message']!r}"}}

    async with hub_of(config, elicitation=answer) as hub:
        result = await hub.call("mcp_old_greet")
        assert (result.text(), dict(result.meta)) == ("Hello Ann, asked 'Who?'", {})


@pytest.mark.interop_full("node", "npm")
async def test_the_filesystem_server_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("hello from disk", "utf-8")
    async with hub_of(node_server("filesystem", str(tmp_path), home=tmp_path)) as hub:
        result = await hub.call(
            "mcp_filesystem_read_text_file", {"path": str(tmp_path / "README.md")}
        )
        assert result.text() == "hello from disk"
        assert not result.is_error
        denied = await hub.call("mcp_filesystem_read_text_file", {"path": "/etc/passwd"})
        assert denied.is_error


@pytest.mark.interop_full("node", "npm")
async def test_the_memory_server_remembers(tmp_path: Path) -> None:
    async with hub_of(node_server("memory", home=tmp_path)) as hub:
        entity = {"name": "Ada", "entityType": "person", "observations": ["likes pegs"]}
        await hub.call("mcp_memory_create_entities", {"entities": [entity]})
        result = await hub.call("mcp_memory_search_nodes", {"query": "pegs"})
        assert "Ada" in result.text()


@pytest.mark.interop_full("node", "npm")
async def test_the_everything_server_makes_a_task_of_a_research_and_asks(tmp_path: Path) -> None:
    config = node_server("everything", "stdio", home=tmp_path)

    def answer(_: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"interpretation": "snake"}}

    async with hub_of(config, elicitation=answer) as hub:
        research = {"topic": "python", "ambiguous": True}
        result = await hub.call("mcp_everything_simulate-research-query", research)
        assert "snake" in result.text()


@pytest.mark.interop("node", "npm")
async def test_the_everything_server_sends_every_kind_of_content(tmp_path: Path) -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with hub_of(node_server("everything", "stdio", home=tmp_path)) as hub:
        ready(hub, ["everything"])
        image = await hub.call("mcp_everything_get-tiny-image")
        assert "image" in {block["type"] for block in image.blocks()}
        link = await hub.call("mcp_everything_get-resource-links", {"count": 1})
        assert "resource_link" in {block["type"] for block in link.blocks()}
        total = await hub.call("mcp_everything_get-sum", {"a": 2, "b": 3})
        assert "5" in total.text()
        await hub.call(
            "mcp_everything_trigger-long-running-operation",
            {"duration": 0.2, "steps": 2},
            on_progress=note,
        )
        assert seen
        server = hub.server("everything")
        assert await server.list_all("resources/list")
        assert await server.list_all("prompts/list")
        first = (await server.list_all("prompts/list"))[0]["name"]
        assert (await server.request("prompts/get", {"name": first}))["messages"]
