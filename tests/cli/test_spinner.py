"""Whatever takes longer than a moment shows that it goes on: on a terminal, and nowhere else."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.handy import Home, Terminal

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")

HALF_DONE = """
from pegboard.cli.terminal.spinner import waiting

with waiting("Copying") as tell:
    tell(1, 2)
    input()
print("done")
"""


def test_a_bar_says_how_far_it_is_and_goes_when_it_is_done(tmp_path: Path) -> None:
    with Terminal(Home(tmp_path), ["-c", HALF_DONE], entry=(sys.executable,)) as terminal:
        terminal.until(r"\r\x1b\[K. Copying… █{10}░{10} 1/2")
        terminal.type("")
        assert terminal.end() == 0
    assert re.search(r"\r\x1b\[Kdone\r\n\Z", terminal.shown)


def test_a_call_that_takes_long_says_that_it_runs(tmp_path: Path) -> None:
    with Terminal(Home(tmp_path), ["call", "mcp_handy_wait"]) as terminal:
        terminal.until(r"\r\x1b\[K. Calling mcp_handy_wait…")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    assert "Traceback" not in terminal.shown


def test_nothing_is_overwritten_where_that_cannot_be(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert "\x1b" not in home.main("call", "mcp_handy_steps").stderr
    with Terminal(home, ["call", "mcp_handy_steps"], TERM="dumb") as terminal:
        assert terminal.end() == 0
    assert "\x1b" not in terminal.shown


def test_moving_many_secrets_shows_how_many_are_moved(tmp_path: Path) -> None:
    home = Home(tmp_path, entries={"a": {"command": "a"}})
    servers = {
        f"s{it}": {
            "command": "x",
            "args": [str(it)],
            "env": {"API_TOKEN": f"canary{it:04}abcdefgh"},
        }
        for it in range(1500)
    }
    (tmp_path / "theirs.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
    words = ["import", "./theirs.json", "--config", "mcp.json", "--yes"]
    with Terminal(home, words) as terminal:
        terminal.until(r"\r\x1b\[K. Copying secrets… [█░]{20} [0-9,]+/1,500")
        assert terminal.end() == 0
    assert "canary" not in terminal.shown
    assert "Wrote 1,500 servers" in terminal.shown
