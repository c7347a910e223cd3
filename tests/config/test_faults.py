"""What cannot be sent or waited for is refused in words that help, and at its place."""

import json
from pathlib import Path

import pytest

from pegboard.config import LoadedConfig, Problem, load_servers
from pegboard.errors import ConfigError


def load(content: object, **environ: str) -> LoadedConfig:
    return load_servers({"mcpServers": {"one": content}}, environ=environ)


def load_text(folder: Path, text: str) -> LoadedConfig:
    path = folder / "mcp.json"
    path.write_text(text, "utf-8")
    return load_servers(path, environ={})


def only_problem(loaded: LoadedConfig) -> Problem:
    (problem,) = loaded.problems
    return problem


@pytest.mark.parametrize("field", ["url", "httpUrl"])
def test_blanks_around_an_address_are_no_part_of_it(field: str) -> None:
    (server,) = load({field: "  https://x.test/mcp\n"}).servers
    assert server.url == "https://x.test/mcp"
    (server,) = load({field: "${U}"}, U="https://x.test/a ").servers
    assert server.url == "https://x.test/a"


@pytest.mark.parametrize("value", ["Bearer ${T:-}", " x", "x\t", "x\n"])
def test_a_header_that_cannot_be_sent_says_what_to_look_for(value: str) -> None:
    problem = only_problem(load({"url": "https://x.test", "headers": {"X-Trace": value}}))
    assert problem.severity == "error"
    assert "for an empty variable" in problem.message


@pytest.mark.parametrize("value", ["", "x", "a b", "a\tb", "Bearer ${T}"])
def test_a_header_that_can_be_sent_is_kept(value: str) -> None:
    loaded = load({"url": "https://x.test", "headers": {"X-Trace": value}}, T="abcdefgh")
    assert loaded.problems == ()
    assert loaded.servers[0].headers["X-Trace"] == value.replace("${T}", "abcdefgh")


@pytest.mark.parametrize("fields", ['"timeouts": {"list": 5, "call": 1e12}', '"timeout": 1e13'])
def test_a_timeout_beyond_reason_is_placed_at_its_field(tmp_path: Path, fields: str) -> None:
    text = f'{{"mcpServers": {{"one": {{"url": "http://x", {fields}}}}}}}'
    problem = only_problem(load_text(tmp_path, text))
    assert problem.message.startswith("Server 'one': The call timeout must be a positive number")
    assert (problem.line, problem.column) == (1, text.index("1e") + 1)


def test_a_file_that_is_not_utf_8_says_where(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(b'\xef\xbb\xbf{\n  "\xc3\xa9": "\xff"}')
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        load_servers(path, environ={}, strict=True)
    assert (caught.value.line, caught.value.column) == (2, 9)


@pytest.mark.parametrize("section", ["top", "mcp"])
def test_an_input_of_vs_code_has_the_default_of_the_file(tmp_path: Path, section: str) -> None:
    strange = [{"id": "none"}, 5, {"id": 6, "default": "x"}, {"id": "x", "default": 7}]
    content = {
        "inputs": [{"id": "region", "default": "eu"}, *strange],
        "servers": {"one": {"command": "x", "args": ["${input:region}"]}},
    }
    text = json.dumps(content if section == "top" else {"mcp": content})
    (server,) = load_text(tmp_path, text).servers
    assert server.args == ("eu",)
