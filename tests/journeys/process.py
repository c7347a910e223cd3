"""`pegboard serve` as a process of its own, as people start it."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".tools"
_ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/mcp")


@contextmanager
def gateway_process(servers: Mapping[str, Any], folder: Path, *options: str) -> Generator[str]:
    """Serve some servers on a free port; gives the origin, once it is ready."""
    with serving([*serve_command(servers, folder), "--port", "0", *options], at=ROOT) as origin:
        yield origin


@contextmanager
def serving(
    command: Sequence[str | Path], *, at: Path, env: Mapping[str, str] | None = None
) -> Generator[str]:
    """Run `pegboard serve`; gives the origin, once it is ready."""
    process = subprocess.Popen(
        command,
        cwd=at,
        env=env,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stderr is not None
    try:
        yield _address_said_in(process.stderr)
    finally:
        process.terminate()
        assert process.wait(30) == 0
        process.stderr.close()


def serve_command(servers: Mapping[str, Any], folder: Path) -> list[str]:
    """Return what starts it, with nothing of this user's in reach."""
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    store = f"sqlite:///{folder}/store.db"
    python = [sys.executable, "-m", "pegboard.cli.main"]
    return [*python, "serve", "--config", str(config), "--store", store]


@contextmanager
def serving_process(*command: str) -> Generator[subprocess.Popen[str]]:
    """Run another server until the end of the block."""
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def _address_said_in(stderr: IO[str]) -> str:
    said: list[str] = []
    for line in stderr:
        said.append(line)
        found = _ADDRESS.search(line)
        if found:
            # Whatever is said later must not fill the pipe.
            threading.Thread(target=stderr.read, daemon=True).start()
            return found[1]
    raise AssertionError(f"`pegboard serve` ended before it served: {''.join(said)}")
