"""Every code block of README and docs runs; `#> …` is what it has to print."""

import ast
import inspect
import os
import re
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("README*.md"), ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")],
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUNNABLE = {"python", "sh"}
# Drawings and output; nothing to run.
INERT = {"text", "json", "toml", "yaml"}


class Block(NamedTuple):
    line: int
    language: str
    source: str


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for found in FENCE.finditer(text):
        yield Block(text.count("\n", 0, found.start()) + 1, found[1], found[2])


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    assert {block.language for block in blocks_of(page)} <= RUNNABLE | INERT


def test_toml_blocks_can_be_read() -> None:
    read = [
        tomllib.loads(block.source)
        for page in PAGES
        for block in blocks_of(page)
        if block.language == "toml"
    ]
    assert all(read)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.language == "python" for block in blocks_of(page))],
    ids=name_of,
)
async def test_python_blocks_run_and_print_what_they_say(
    page: Path, caplog: pytest.LogCaptureFixture
) -> None:
    space: dict[str, Any] = {"__name__": "docs"}
    for block in blocks_of(page):
        if block.language == "python":
            where = f"{name_of(page)}:{block.line}"
            assert await printed(block.source, where, space) == promised(block.source), where
            assert caplog.records == [], where


async def printed(source: str, where: str, space: dict[str, Any]) -> list[str]:
    """Run a block as a notebook would, with `await` at the top level."""
    output = StringIO()
    code = compile(source, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with redirect_stdout(output):
        result = eval(code, space)
        if inspect.iscoroutine(result):
            await result
    return output.getvalue().splitlines()


def promised(source: str) -> list[str]:
    lines = [line for line in source.splitlines() if line.startswith("#>")]
    return [line.removeprefix("#>").removeprefix(" ") for line in lines]


COMMANDS = sorted(
    {
        line
        for page in PAGES
        for block in blocks_of(page)
        if block.language == "sh"
        for line in block.source.splitlines()
    }
)
# These run the tests or the checks, from which this test itself is run, or until somebody ends
# them: that they exist is all that can be tried here.
ONLY_TRIED = {"make test", "make check", "make run"}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("command", COMMANDS)
def test_shell_blocks_run(command: str) -> None:
    words = command.split()
    if command in ONLY_TRIED:
        words.insert(1, "--dry-run")
    run = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout


@pytest.mark.timeout(120)
def test_the_demo_shows_what_readme_promises() -> None:
    run = subprocess.run(
        ["make", "demo"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    )
    for promise in (
        "Servers of mcp.json (one does not exist",
        "ConnectionLostError",
        "What a planner sees",
        "InvalidArgumentsError",
        "What the observer saw",
    ):
        assert promise in run.stdout
    assert "Traceback" not in run.stdout + run.stderr


@pytest.mark.timeout(120)
def test_make_run_serves_until_it_is_interrupted() -> None:
    command = ["make", "run", "ARGS=--port 0"]
    with subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True
    ) as process:
        assert process.stderr is not None
        said = ""
        while "/mcp" not in said:
            said = process.stderr.readline()
            assert said, "it ended before it served"
        os.killpg(process.pid, signal.SIGINT)
        assert "Traceback" not in process.stderr.read()


LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [it for it in PAGES if "README" in it.name], ids=name_of)
def test_readme_is_short(page: Path) -> None:
    assert page.read_text("utf-8").count("\n") <= 150
