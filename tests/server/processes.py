"""`pegboard serve` as a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

ROOT = Path(__file__).parents[2]


class Served:
    """A process that serves, and what it said."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self.process = process
        self.said = ""
        assert process.stderr is not None
        self._lines = BufferedByteReceiveStream(process.stderr)

    async def hears(self, pattern: str) -> re.Match[str]:
        """Wait until the process has said something."""
        with anyio.fail_after(30):
            while True:
                found = re.search(pattern, self.said)
                if found is not None:
                    return found
                self.said += (await self._lines.receive_until(b"\n", 100_000)).decode() + "\n"

    async def rest(self) -> str:
        """Wait for the end of the process, and return everything it said."""
        with anyio.fail_after(30):
            try:
                while True:
                    self.said += (await self._lines.receive()).decode()
            except anyio.EndOfStream:
                await self.process.wait()
        return self.said

    @property
    def url(self) -> str:
        found = re.search(r"(http://[^/ ]+)/mcp", self.said)
        assert found is not None
        return found[1]


@asynccontextmanager
async def serving(
    folder: Path,
    *options: str,
    config: dict[str, Any] | None = None,
    terminal: int = subprocess.PIPE,
    before: Sequence[str] = (),
    **environ: str,
) -> AsyncGenerator[Served]:
    """Start `pegboard serve` with a configuration and a store in a folder.

    If a terminal is given, it belongs to it. Words before the command run it.
    """
    path = folder / "mcp.json"
    if config is not None:
        write(path, config)
        options = ("--config", str(path), *options)
    own = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    command = [sys.executable, "-m", "pegboard.cli.main", "serve", "--port", "0", *options]
    process = await anyio.open_process(
        [*before, *command],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **own, **environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
    )
    try:
        yield Served(process)
    finally:
        if process.returncode is None:
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()


def write(path: Path, config: dict[str, Any]) -> None:
    """Replace a configuration at once."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(config), encoding="utf-8")
    draft.replace(path)


def servers(**scripts: Path) -> dict[str, Any]:
    """Return a configuration of servers that are scripts; each says its process id in a file."""
    return {
        "mcpServers": {
            name: {"command": sys.executable, "args": [str(path)]} for name, path in scripts.items()
        }
    }


def is_alive(pid: int) -> bool:
    """Tell whether a process runs, and is not only waiting to be buried."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


async def is_gone(pid: int) -> None:
    """Wait until a process has ended."""
    with anyio.fail_after(15):
        while await anyio.to_thread.run_sync(is_alive, pid):  # noqa: ASYNC110 - no child of ours
            await anyio.sleep(0.02)


async def appears(path: Path) -> None:
    """Wait until a file is there."""
    with anyio.fail_after(15):
        while not await anyio.Path(path).exists():  # noqa: ASYNC110 - another process makes it
            await anyio.sleep(0.02)


def interrupt(served: Served, number: int = signal.SIGTERM) -> None:
    """Send a signal."""
    os.kill(served.process.pid, number)
