"""The programs of clients themselves: what `pegboard connect` wrote connects them."""

import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from scripts.clients_page import RUN_BY_TESTS

from tests.journeys.process import TOOLS, gateway_process

# Each of them loads some hundred megabytes first.
pytestmark = [pytest.mark.timeout(300), pytest.mark.interop_full("node", "npm-clients")]

BIN = TOOLS / "npm-clients" / "node_modules" / ".bin"
PROGRAMS = {
    "claude-code": ("claude", r"pegboard: .* ✔ Connected"),
    "codex": ("codex", r"pegboard .* enabled "),
    # It lists without connecting, as Codex does.
    "copilot": ("copilot", r"pegboard \((http|local)\)"),
    "gemini": ("gemini", r"✓ pegboard: .* - Connected"),
    "opencode": ("opencode", r"✓ pegboard connected"),
    "qwen": ("qwen", r"✓ pegboard: .* - Connected"),
}
SERVERS: dict[str, Any] = {
    "time": {"command": sys.executable, "args": ["-m", "mcp_server_time"]},
}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with gateway_process(SERVERS, tmp_path_factory.mktemp("gateway")) as origin:
        yield origin


def run(*command: object, home: Path) -> str:
    """Run a program in a home of its own that reaches no other machine."""
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [str(it) for it in command],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        timeout=120,
        check=False,
        cwd=home,
        env={
            **nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
            "NO_COLOR": "1",
            "HOME": str(home),
            "PATH": os.pathsep.join([str(TOOLS / "node" / "bin"), os.environ["PATH"]]),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            # Without it, Gemini uses no server in a folder that it has not asked about.
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


def pegboard(*command: object, home: Path) -> str:
    return run(sys.executable, "-m", "pegboard.cli.main", *command, home=home)


@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_reaches_the_gateway_at_its_address(
    client: str, origin: str, tmp_path: Path
) -> None:
    pegboard("connect", client, "--url", f"{origin}/mcp", home=tmp_path)
    program, connected = PROGRAMS[client]
    assert re.search(connected, run(BIN / program, "mcp", "list", home=tmp_path))


@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_starts_the_gateway_itself(client: str, tmp_path: Path) -> None:
    pegboard("add", "time", "--", sys.executable, "-m", "mcp_server_time", home=tmp_path)
    pegboard("connect", client, home=tmp_path)
    program, connected = PROGRAMS[client]
    assert re.search(connected, run(BIN / program, "mcp", "list", home=tmp_path))


def test_the_reference_names_the_programs_that_are_run_here() -> None:
    assert set(RUN_BY_TESTS) == set(PROGRAMS)
