"""A home with a configuration in it, and commands that run there."""

import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from pegboard.cli.main import main

SCRIPT = Path(__file__).with_name("handy_server.py")
ENTRY = (sys.executable, "-m", "pegboard.cli.main")


class Ran(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


class Home:
    """A home folder for a test: nothing of the real one is seen or touched."""

    def __init__(self, folder: Path, *, entries: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self.notes = folder / "notes.txt"
        self.configure(entries or {"handy": self.entry()})

    def entry(self, **fields: Any) -> dict[str, Any]:
        notes = {"NOTES": str(self.notes)}
        return {
            "command": sys.executable,
            "args": ["-S", str(SCRIPT)],
            "env": notes,
            "protocol": "legacy",
            **fields,
        }

    def configure(self, entries: Mapping[str, Any], **sections: Any) -> None:
        content = {"mcpServers": entries, **sections}
        (self.folder / "mcp.json").write_text(json.dumps(content), encoding="utf-8")

    @property
    def environ(self) -> dict[str, str]:
        own = ("CONFIG", "DATA", "STATE", "CACHE", "RUNTIME")
        places = {f"XDG_{it}_HOME": str(self.folder / it.lower()) for it in own}
        kept = {key: it for key, it in os.environ.items() if not key.startswith("PEGBOARD_")}
        return {**kept, **places, "HOME": str(self.folder), "NO_COLOR": "1", "COLUMNS": "200"}

    def main(self, *words: str, stdin: str = "") -> Ran:
        """Run a command in this process: that spares the imports."""
        out, err = io.StringIO(), io.StringIO()
        before, place = dict(os.environ), Path.cwd()
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environ)
        given, sys.stdin = sys.stdin, io.StringIO(stdin)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = main(words)
        finally:
            sys.stdin = given
            os.chdir(place)
            os.environ.clear()
            os.environ.update(before)
        return Ran(code, out.getvalue(), err.getvalue())

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*ENTRY, *words],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            env=self.environ,
            cwd=self.folder,
            check=False,
            timeout=50,
        )

    def starts(self) -> int:
        """How often the server was started."""
        return self.noted().count("started")

    def noted(self) -> list[str]:
        return self.notes.read_text("utf-8").splitlines() if self.notes.exists() else []


class Terminal:
    """A command at a pseudo-terminal: what it shows, and what is typed."""

    def __init__(
        self, home: Home, words: Sequence[str], *, entry: Sequence[str] = ENTRY, **environ: str
    ) -> None:
        own, theirs = pty.openpty()
        self._terminal = own
        self.process = subprocess.Popen(
            [*entry, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**home.environ, "TERM": "xterm", **environ},
            cwd=home.folder,
            start_new_session=True,
            close_fds=True,
        )
        os.close(theirs)
        self.shown = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    def until(self, pattern: str) -> str:
        """Wait until something is shown."""
        limit = time.monotonic() + 40
        while not re.search(pattern, self.shown, re.DOTALL):
            assert time.monotonic() < limit, self.shown
            assert self._read(), self.shown
        return self.shown

    def type(self, text: str) -> None:
        os.write(self._terminal, f"{text}\n".encode())

    def end(self) -> int:
        """Read what is still shown, and return the exit code."""
        while self._read():
            pass
        return self.process.wait(40)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], 40)
        if not ready:
            return False
        try:
            data = os.read(self._terminal, 65_536)
        except OSError:  # how Linux tells that the other end is closed
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)
