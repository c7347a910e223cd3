"""A file of very many servers: each ordinary entry takes little work, and the file is read once."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.config import load_servers
from pegboard.config.files.jsonc import files_read_once, read_jsonc
from pegboard.config.files.servers_file import ServersFile
from pegboard.config.redaction import environment_read_once
from pegboard.config.secret_detection import argument_secrets, is_harmless, is_harmless_json
from pegboard.config.secrets.plain_secrets import plain_secrets

PROGRAM = {"command": "python", "args": ["-m", "server_12345"]}
ADDRESS = {"type": "http", "url": "https://s1.example.com/mcp", "headers": {"X-Team": "blue"}}


@pytest.mark.parametrize("entry", [PROGRAM, ADDRESS])
def test_an_ordinary_entry_is_read_and_shown_with_few_calls(
    tmp_path: Path, entry: Mapping[str, Any]
) -> None:
    def listed(count: int) -> int:
        path = tmp_path / f"{count}.json"
        path.write_text(
            json.dumps({"mcpServers": {f"s{n}": entry for n in range(count)}}), encoding="utf-8"
        )
        with environment_read_once():
            file = ServersFile(path)

            def look() -> None:
                for reading in file.readings().values():
                    assert reading.config is not None
                    assert reading.config.target

            return sum(_calls_of(look).values())

    listed(1)
    few, many = listed(10), listed(110)
    assert (many - few) / 100 < 200


def test_an_ordinary_entry_is_not_searched_field_by_field() -> None:
    servers = {f"s{n}": PROGRAM for n in range(20)}
    calls = _calls_of(lambda: load_servers({"mcpServers": servers}))
    assert calls["interpret"] == 20
    assert calls["plain_secrets"] == calls["expanded"] == calls["secrets_in"] == 0


def test_a_file_is_parsed_once_in_a_block_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("{}", encoding="utf-8")
    with files_read_once():
        first = read_jsonc(path)
        path.write_text('{"a": 1}', encoding="utf-8")
        assert read_jsonc(path) is first
    assert read_jsonc(path).value == {"a": 1}


PIECES = ["-", "--", "/", "@", "a", "B", "9", "_", ".", "\n", "x" * 12, "1a2b3c4d5e6f7g8h"]
NAMES = ["token", "API-KEY", "pw", "pat", "jwt", "pin", "1234", "auth", "basic", "Bearer", "eyJ"]
TOKENS = ["ghp_", "github_pat_", "glpat-", "sk-", "pk_live_", "sk_live_", "xoxb-", "AKIA", "AIza"]
WORDS = st.lists(st.sampled_from([*PIECES, *NAMES, *TOKENS]), max_size=4).map("".join)


@given(st.lists(WORDS, max_size=4))
def test_what_a_quick_look_finds_harmless_has_no_secret(args: list[str]) -> None:
    if is_harmless(args):
        # A word that is not simple makes the search look at all of them.
        assert not list(argument_secrets([*args, "é"]))


@given(
    st.lists(WORDS, max_size=3),
    st.dictionaries(WORDS, WORDS, max_size=2),
    st.sampled_from(["", "https://example.com/"]),
)
def test_an_entry_that_a_quick_look_finds_harmless_has_no_secret(
    args: list[str], env: dict[str, str], start: str
) -> None:
    entry = {"command": "run", "args": [*args, start + "".join(args)], "env": env}
    if is_harmless_json(json.dumps(entry, separators=(",", ":"))):
        looked_at = {**entry, "args": [*entry["args"], "é"]}
        assert not list(plain_secrets("s", looked_at))


def _calls_of(action: Callable[[], object]) -> Counter[str]:
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            calls[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls
