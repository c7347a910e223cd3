"""Commands show what a definition hides, on a terminal and in a pipe; results stay as they are."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.handy import Home

HIDDEN = "\u202e\U000e0041\u200b\x1b[2J"
SHOWN = "\\u202e\\U000e0041\\u200b\\u001b[2J"
SERVER = f"""
import json, sys
HIDDEN = {HIDDEN!r}
SCHEMA = {{"type": "object", "properties": {{"way": {{"type": "string", "description": HIDDEN}}}}}}
TOOL = {{"name": "go", "description": "Goes" + HIDDEN, "inputSchema": SCHEMA}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    known = {{"tools/list": {{"tools": [TOOL]}},
             "tools/call": {{"content": [{{"type": "text", "text": HIDDEN}}]}}}}
    started = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
               "serverInfo": {{"name": "sly", "version": "1"}}}}
    result = {{**known, "initialize": started}}.get(asked["method"], {{}})
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)
"""


@pytest.fixture
def sly(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    script = home.folder / "sly.py"
    script.write_text(SERVER, encoding="utf-8")
    entry = {"command": sys.executable, "args": [str(script)], "protocol": "legacy"}
    home.configure({"sly": entry})
    return home


WORDS = [
    ["show", "mcp_sly_go", "--json"],
    ["show", "mcp_sly_go"],
    ["show", "mcp_sly_go", "--dialect", "openai"],
    ["tools", "--json"],
    ["search", "goes"],
    ["search", "goes", "--json"],
]


def test_what_a_definition_hides_is_shown_in_a_pipe_from_the_server_and_from_the_cache(
    sly: Home,
) -> None:
    # The first command asks the server, and the others read the cache.
    for words in WORDS:
        ran = sly.main(*words)
        assert ran.returncode == 0, ran.stderr
        assert "u202e" in ran.stdout, words
        assert not {"\u202e", "\U000e0041", "\u200b", "\x1b"} & set(ran.stdout), words
    ran = sly.main("show", "mcp_sly_go", "--dialect", "mcp")
    assert json.loads(ran.stdout)["description"] == f"Goes{SHOWN}"


def test_the_result_of_a_call_is_not_touched_in_a_pipe(sly: Home) -> None:
    assert sly.main("call", "mcp_sly_go").stdout == f"{HIDDEN}\n"
