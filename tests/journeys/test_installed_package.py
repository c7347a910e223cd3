"""The packages of `make dist`, installed outside the checkout, as a user has it."""

import json
import os
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path

import anyio
import pytest
from mcp import Client
from scripts.dist import build, problems_of

from tests.journeys.process import ROOT, TOOLS, serving

UV = TOOLS / "bin" / "uv"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = ",".join(SETTINGS["project"]["optional-dependencies"])


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.mark.interop
@pytest.mark.timeout(600)  # it builds twice, from clones
def test_the_same_commit_gives_the_same_bytes_and_only_the_files_of_the_product(
    packages: list[Path], tmp_path: Path
) -> None:
    again = build(tmp_path / "again")
    digests = [sha256(it.read_bytes()).hexdigest() for it in (*packages, *again)]
    assert digests[:2] == digests[2:]
    assert [problem for package in packages for problem in problems_of(package)] == []


@pytest.mark.interop
@pytest.mark.timeout(600)  # pip downloads and compiles everything anew
@pytest.mark.parametrize("way", ["pip", "pip, of the sdist", "uv tool", "pip with every extra"])
async def test_an_installed_package_serves_searches_calls_and_connects(
    way: str, packages: list[Path], tmp_path: Path
) -> None:
    kind = ".gz" if "sdist" in way else ".whl"
    pegboard = installed(way, next(it for it in packages if it.suffix == kind), tmp_path)
    home = tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    entry = home / ".cursor" / "mcp.json"
    entry.write_text('{"mcpServers": {}}', "utf-8")
    before = entry.read_bytes()

    demo = [pegboard, "serve", "--demo", "--port", "0"]
    with serving(demo, at=home, env=environment_of(home)) as origin:
        for mode in ("auto", "legacy"):
            async with Client(f"{origin}/mcp", mode=mode) as client:
                wanted = {"query": "write a Roman numeral"}
                with anyio.fail_after(120):
                    # Its servers start beside the gateway, and on a busy machine they take long.
                    while "still starting" in (found := await said_of(client, wanted)):
                        pass
                assert "mcp_numbers_to_roman" in found
                wanted = {"name": "mcp_numbers_to_roman", "arguments": {"number": 2026}}
                said = await client.call_tool("call_tool", wanted)
                assert "MMXXVI" in str(said.content)
    said_by(pegboard, home, "add", "clock", "--", "pegboard", "demo-server", "clock")
    said = said_by(pegboard, home, "call", "mcp_clock_day_of_week", "day=2026-07-28")
    assert said.strip() == "Tuesday"
    said_by(pegboard, home, "connect", "cursor", "--yes")
    command = json.loads(entry.read_text("utf-8"))["mcpServers"]["pegboard"]["command"]
    assert Path(command).is_relative_to(tmp_path)
    said_by(pegboard, home, "disconnect", "cursor")
    assert entry.read_bytes() == before


async def said_of(client: Client, wanted: dict[str, str]) -> str:
    return str((await client.call_tool("search_tools", wanted)).content)


def installed(way: str, package: Path, folder: Path) -> Path:
    """Install a package into a fresh environment; give the command."""
    if way == "uv tool":
        bins = folder / "bin"
        env = {**os.environ, "UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(bins)}
        command = [UV, "tool", "install", "--quiet", "--python", sys.executable, package]
        subprocess.run(command, check=True, env=env, cwd=folder)
        return bins / "pegboard"
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    wanted = f"{package}[{EXTRAS}]" if "extra" in way else str(package)
    pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", wanted], check=True, cwd=folder)
    return environment / "bin" / "pegboard"


def said_by(pegboard: Path, home: Path, *words: str) -> str:
    """Run a command; give what it prints."""
    run = [pegboard, *words]
    done = subprocess.run(
        run, cwd=home, env=environment_of(home), check=True, stdout=-1, encoding="utf-8"
    )
    return done.stdout


def environment_of(home: Path) -> dict[str, str]:
    """Return an environment in which nothing of the checkout is within reach."""
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return {**kept, "PATH": "/usr/bin:/bin", "HOME": str(home)}
