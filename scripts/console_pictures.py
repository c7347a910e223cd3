"""Draw docs/images/console/: pictures of every page of the console, in a real browser.

`make pictures` runs this: a gateway with the demo servers and a broken one gets some calls, and the
browser of `make interop` photographs the pages.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from scripts.places import ROOT

__all__ = ["PAGES", "PICTURES"]

PICTURES = ROOT / "docs" / "images" / "console"
PAGES: Mapping[str, str] = {
    "board": "/console",
    "server": "/console/servers/charts",
    "tools": "/console/tools",
    "tool": "/console/tools/mcp_clock_current_time",
    "search": "/console/search?q=what+time+is+it+in+Oslo&method=bm25&method=hybrid",
    "calls": "/console/calls",
    "waiting": "/console/waiting",
    "cost": "/console/cost",
    "keys": "/console/keys",
    "configuration": "/console/configuration",
    "health": "/console/health",
}
"""The path of each picture."""
_CALLS = (
    "mcp_clock_current_time timezone=Europe/Oslo",
    "mcp_notes_add_note text=pegs",
    "mcp_notes_list_notes",
    "mcp_clock_current_time timezone=Europe/Nowhere",
    "mcp_clock_day_of_week day=2026-07-28",
)
_BROWSER = ROOT / ".tools" / "npm-browser"
_NODE = ROOT / ".tools" / "node" / "bin" / "node"
_PROGRAM = Path(__file__).with_suffix(".mjs")


def draw() -> None:
    """Write a picture of each page; one that this version lacks has none."""
    with tempfile.TemporaryDirectory() as folder, _serving(Path(folder)) as environ:
        for it in _CALLS:
            subprocess.run(  # noqa: S603 - our own command
                [*_pegboard(), "call", *it.split()], env=environ, check=False, capture_output=True
            )
        link = _said("console", "--no-browser", environ=environ).strip()
        PICTURES.mkdir(exist_ok=True)
        unpacked = _BROWSER / "tmp"
        unpacked.mkdir(exist_ok=True)
        subprocess.run(  # noqa: S603 - a program of ours
            [
                *(_NODE, "--input-type=module", "-e", _PROGRAM.read_text("utf-8")),
                *(link, PICTURES, folder, json.dumps(PAGES)),
            ],
            check=True,
            cwd=_BROWSER,
            env={**os.environ, "TMPDIR": str(unpacked)},
        )


@contextmanager
def _serving(home: Path) -> Generator[dict[str, str]]:
    names = ("clock", "notes", "numbers", "texts")
    servers = {it: {"command": "pegboard", "args": ["demo-server", it]} for it in names}
    (home / "mcp.json").write_text(
        json.dumps({"mcpServers": {**servers, "charts": {"command": "charts-server"}}}), "utf-8"
    )
    environ = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PEGBOARD_CONFIG": str(home / "mcp.json"),
    }
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*_pegboard(), "serve", "--port", "0"],
        env=environ,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        cwd=home,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if re.search(r"http://127\.0\.0\.1:\d+/mcp", line):
                break
        yield environ
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _pegboard() -> list[str]:
    return [sys.executable, "-m", "pegboard.cli.main"]


def _said(*words: str, environ: Mapping[str, str]) -> str:
    return subprocess.run(  # noqa: S603 - our own command
        [*_pegboard(), *words], env=environ, check=True, stdout=subprocess.PIPE, encoding="utf-8"
    ).stdout


if __name__ == "__main__":
    draw()
