"""Skills of FastMCP's server and of a folder, through the gateway, to FastMCP's client."""

import json
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.journeys.journey import text_of
from tests.journeys.process import ROOT, TOOLS, serve_command, serving
from tests.skills.test_folder import write

pytestmark = [pytest.mark.timeout(180), pytest.mark.interop("fastmcp-skills")]

PROGRAMS = Path(__file__).parent / "programs"
PYTHON = TOOLS / "fastmcp-skills" / "bin" / "python"
THEIRS = "library+skill://git-workflow/SKILL.md"
OURS = "skill://refunds/SKILL.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skills")
    words = "Name branches and write commits by the conventions of the team."
    front = f"name: git-workflow\ndescription: {words}"
    write(folder / "theirs", "git-workflow", front, files={"references/A.md": b"feature/...\n"})
    write(folder / "skills", "refunds")
    return folder


@pytest.fixture(scope="module")
def origin(folder: Path) -> Generator[str]:
    script = PROGRAMS / "fastmcp_skills_server.py"
    servers = {"library": {"command": str(PYTHON), "args": [str(script), str(folder / "theirs")]}}
    command = [*serve_command(servers, folder), "--port", "0"]
    file = {"mcpServers": servers, "skills": "./skills"}
    (folder / "mcp.json").write_text(json.dumps(file), "utf-8")
    with serving(command, at=ROOT) as origin:
        yield origin


def test_a_real_client_lists_verifies_finds_and_reads_skills(origin: str) -> None:
    command = [PYTHON, PROGRAMS / "fastmcp_skills_client.py", f"{origin}/mcp"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert {uri: it["verified"] for uri, it in seen["skills"].items()} == {OURS: True, THEIRS: True}
    # The client declares the extension, so it does without prompts.
    assert seen["prompts"] == []
    assert "skill library/git-workflow — Name branches" in seen["found"]
    assert seen["read"].startswith("[Skill 'library/git-workflow', published by MCP server")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_that_knows_no_skills_sees_prompts_and_resources(
    origin: str, mode: str
) -> None:
    with anyio.fail_after(60):
        async with Client(f"{origin}/mcp", mode=mode) as client:
            prompts = [it.name for it in (await client.list_prompts()).prompts]
            assert prompts == ["refunds", "mcp_library_git-workflow"]
            got = await client.get_prompt("mcp_library_git-workflow")
            assert "published by MCP server 'library'" in str(got.messages[0].content)
            uris = {str(it.uri) for it in (await client.list_resources()).resources}
            assert uris >= {OURS, THEIRS}
            read = await client.call_tool(
                "get_skill", {"name": "git-workflow", "path": "references/A.md"}
            )
            assert text_of(read).endswith("feature/...\n")
