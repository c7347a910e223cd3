"""Getting started goes as it is written: what is typed there is run, and what is shown comes."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["docs/getting-started.md", "docs/getting-started.zh-CN.md"]
BLOCK = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANYTHING = "…"

DESKTOP = """{
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]}
  }
}
"""
CURSOR = """{
  // What Cursor has.
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
    "notes": {"command": "notes-server", "env": {"NOTES_TOKEN": "canary-4711-0815-abcdef"}},
    "charts": {"command": "charts-server"}
  }
}
"""


class Typed(NamedTuple):
    command: str
    shown: list[str]


def typed_in(page: Path) -> Iterator[Typed]:
    for block in BLOCK.findall(page.read_text("utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            yield Typed(command, [line for line in shown if line.strip()])


@pytest.fixture(name="home")
def fixture_home(tmp_path: Path) -> Path:
    """Return the home of somebody who has two clients and three servers, one of them broken."""
    programs = {"uvx": "mcp_server_time", "notes-server": "pegboard.cli.demo.notes"}
    (tmp_path / "bin").mkdir()
    for name, module in programs.items():
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module}\n', "utf-8")
        program.chmod(0o755)
    files = {".config/Claude/claude_desktop_config.json": DESKTOP, ".cursor/mcp.json": CURSOR}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8")
    (tmp_path / "work").mkdir()
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="The files of clients are elsewhere.")
@pytest.mark.timeout(120)
def test_what_is_typed_gives_what_is_shown(home: Path) -> None:
    # Not the places that XDG names: the pages are about a home without any.
    environ = {
        "PATH": f"{home / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
    }
    said = ""
    for command, shown in typed_in(ROOT / PAGES[0]):
        program, *words = shlex.split(command)
        assert program == "pegboard"
        run = subprocess.run(
            [sys.executable, "-m", "pegboard.cli.main", *words],
            cwd=home / "work",
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        output = run.stdout + run.stderr
        assert run.returncode == (1 if "error" in " ".join(shown) else 0), output
        missing = [line for line in shown if not comes(line, output)]
        assert missing == [], output
        said += output
    assert (home / ".cursor/mcp.json").read_text("utf-8") == CURSOR
    assert "canary-4711" not in said


def comes(line: str, output: str) -> bool:
    pattern = ".*".join(re.escape(" ".join(it.split())) for it in line.split(ANYTHING))
    lines = (" ".join(it.split()) for it in output.splitlines())
    return any(re.fullmatch(pattern, it) for it in lines)


def test_both_pages_type_the_same() -> None:
    english, chinese = (list(typed_in(ROOT / page)) for page in PAGES)
    assert english == chinese
    assert len(english) > 5
