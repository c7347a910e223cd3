"""Tables of Codex taken out and put in, with everything else left as it is."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from pegboard.clients import CLIENTS, OUR_NAME, Machine, connect, disconnect
from pegboard.clients.client_file import with_entries, without_entries
from tests.clients.conftest import put_in_place

FILE = """# Codex, as I like it
model = "o3"

[mcp_servers.a]
command = "a" # the first
# args = ["-v"]

[mcp_servers.b]
command = "b"

[mcp_servers.b.env]
A = "1"

# How deep
# it thinks
[profiles.deep]
model = "o4"

# The last one
[mcp_servers.c]
command = "c"
# the end
"""
SECTION = ("mcp_servers",)
PATH = Path("config.toml")
CODEX = CLIENTS["codex"]
ENTRY = CODEX.program_entry("/opt/pegboard", ["serve"])


def comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


@pytest.mark.parametrize("names", [["a"], ["b"], ["a", "b"], ["c"], ["a", "b", "c"], ["c", "x"]])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_around_what_is_taken_out_stay(
    names: list[str], newline: str, machine: Callable[[str], Machine]
) -> None:
    before = FILE.replace("\n", newline)
    here = machine("linux")
    path = put_in_place("codex", here, before.encode())
    connect(CODEX, here, ENTRY, take_out=names)
    now = path.read_bytes().decode()
    assert comments(now) == comments(FILE)
    assert f"# it thinks{newline}[profiles.deep]{newline}" in now
    left = {*"abc", OUR_NAME} - {*names}
    assert set(tomllib.loads(now)["mcp_servers"]) == left
    disconnect(CODEX, here)
    assert path.read_bytes().decode() == before


@pytest.mark.parametrize("text", ["", "a = 1", FILE, FILE + "\n\n", "[mcp_servers]\n", FILE[:-1]])
def test_what_was_put_in_comes_out_again(text: str) -> None:
    written = with_entries(PATH, text, SECTION, {OUR_NAME: ENTRY})
    assert written.startswith(text)
    without = without_entries(PATH, written, SECTION, [OUR_NAME])
    assert without == (text if text.endswith("\n") or not text else text + "\n")


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers.a]\nnote = """\n[mcp_servers.b]\n# no comment\n"""\n[z]\nb = 1\n',
        '[y]\nnote = """\n[mcp_servers.a]\nx = 1\n"""\n[mcp_servers.a]\ncommand = "a"\n',
        '[mcp_servers.a]\nargs = [\n["x"],\n[ "mcp_servers" ]\n]\n[z]\nb = 1\n',
        '[ mcp_servers . "a" ] # mine\ncommand = "a"\n[mcp_servers."a".env]\nX = "[z]"\n',
    ],
)
def test_what_only_looks_like_a_header_is_none(text: str) -> None:
    expected = tomllib.loads(text)
    del expected["mcp_servers"]["a"]
    left = tomllib.loads(without_entries(PATH, text, SECTION, ["a"]))
    assert {"mcp_servers": {}} | left == expected
