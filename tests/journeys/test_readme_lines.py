"""The shell blocks of README, line by line as written, in a clean clone and a new home."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.docs.test_code_blocks import blocks_of
from tests.journeys.process import ROOT

SHELL = {"sh", "bash", "shell", "console"}
_COMMAND = re.compile(
    r"(?:\w+=\S+ )*(?:make|pegboard|\.venv/bin/\S+|uv|pip|pipx|source|cd|export) "
)
_PLACEHOLDER = re.compile(r"…|path/to|<[a-z-]+>")
_KEPT = re.compile(r"(?:source|\.|cd|export) ")
_SERVES = re.compile(r"^make run\b|\bpegboard serve\b(?!.*--stdio)")
SECONDS = 600
"""For one line: the first of them downloads and installs everything."""


def lines_of(page: Path) -> Iterator[str]:
    """Return the lines to type; a block of plain text counts if all of its lines are commands."""
    for block in blocks_of(page):
        lines = [it for it in block.source.splitlines() if it.strip()]
        is_typed = block.language == "text" and all(_COMMAND.match(f"{it} ") for it in lines)
        if block.language in SHELL or is_typed:
            yield from (it.partition("  #")[0].strip() for it in lines if it[:1] != "#")


def as_tried(line: str) -> str:
    """Return a line as it is run here: on a free port, and with tests collected but not run."""
    if line == "make test":
        # They take minutes, and this is one of them.
        return "make setup && .venv/bin/python -m pytest --collect-only -q"
    if line == "pegboard import":
        # A person is asked, and agrees.
        return f"{line} --yes"
    if line.startswith("make run"):
        return f'{line} ARGS="--port 0"'
    return f"{line} --port 0" if _SERVES.search(line) else line


@pytest.mark.interop_full
@pytest.mark.timeout(2_400)
def test_each_line_of_readme_works_in_the_order_written(tmp_path: Path) -> None:
    clone, home = tmp_path / "pegboard", tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    # The reader has a client with a server.
    entry = {"command": f"{clone}/.venv/bin/python", "args": ["-m", "pegboard.cli.demo.notes"]}
    servers = json.dumps({"mcpServers": {"notes": entry}})
    (home / ".cursor" / "mcp.json").write_text(servers, "utf-8")
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
    env = environment_of(home, clone)
    kept: list[str] = []
    failed: list[str] = []
    for line in lines_of(clone / "README.md"):
        program = line.split()[0]
        is_installer = program in ("uv", "pipx") and shutil.which(program, path=env["PATH"]) is None
        # `test_installed_package.py` tries the installers that this machine lacks.
        if _PLACEHOLDER.search(line) or is_installer:
            continue
        command = ["bash", "-euo", "pipefail", "-c", "\n".join([*kept, as_tried(line)])]
        if _SERVES.search(line):
            problem = problem_of_serving(command, clone, env)
        else:
            problem = problem_of_running(command, clone, env)
        if problem is not None:
            failed.append(f"$ {line}\n{problem}")
        elif _KEPT.match(line):
            kept.append(line)
    assert not failed, "\n\n".join(failed)


def test_the_lines_of_readme_are_found() -> None:
    assert {"make run", "make test"} <= set(lines_of(ROOT / "README.md"))


def problem_of_running(command: list[str], at: Path, env: Mapping[str, str]) -> str | None:
    """Run a line to its end; return what it printed if it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=at,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            encoding="utf-8",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"It did not end within {SECONDS} s."
    return None if done.returncode == 0 else f"exit code {done.returncode}: {done.stdout[-2_000:]}"


def problem_of_serving(command: list[str], at: Path, env: Mapping[str, str]) -> str | None:
    """Run a line until it serves, then press Ctrl-C; return what it printed if it does not."""
    said: list[str] = []
    with subprocess.Popen(
        command,
        cwd=at,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        stop = threading.Timer(SECONDS, os.killpg, [process.pid, signal.SIGKILL])
        stop.start()
        try:
            for line in process.stderr:
                said.append(line)
                if re.search(r"http://127\.0\.0\.1:\d+/mcp", line):
                    os.killpg(process.pid, signal.SIGINT)
                    said.append(process.stderr.read())
                    is_clean = "Traceback" not in said[-1]
                    return None if is_clean else "".join(said)[-2_000:]
        finally:
            stop.cancel()
    return f"It ended before it served: {''.join(said)[-2_000:]}"


def environment_of(home: Path, clone: Path) -> dict[str, str]:
    """Return the environment of a new user, for whom the command of the clone is `pegboard`."""
    names = ("LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "PIP_INDEX_URL", "UV_INDEX_URL")
    known = {name: os.environ[name] for name in names if name in os.environ}
    # The interpreter of this run, not that of the environment that it belongs to.
    python = Path(sys.base_prefix) / "bin"
    path = f"{clone / '.venv' / 'bin'}:{python}:/usr/local/bin:/usr/bin:/bin"
    return {**known, "HOME": str(home), "PATH": path}
