import json
import logging
from pathlib import Path
from pprint import pformat
from typing import Any, Literal, get_type_hints

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from pegboard import ConfigError
from pegboard.compat.excelmanus import MCPConfigLoader, MCPServerConfig, mcp_config_schema

validate: Any = MCPConfigLoader._validate_server_config  # pyright: ignore[reportPrivateUsage]
parse: Any = MCPConfigLoader._parse_config  # pyright: ignore[reportPrivateUsage]

SAMPLE = """
{
  "mcpServers": {
    "filesystem": {
      "transport": "stdio",
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"],
      "env": {}
    },
    "web-search": {
      "transport": "sse",
      "url": "http://localhost:8080/sse",
      "timeout": 60
    }
  }
}
"""


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home and a working directory without files, and no variable."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.delenv("EXCELMANUS_MCP_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def file_of(path: Path, server: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {server: {"transport": "stdio", "command": "x"}}
    path.write_text(json.dumps({"mcpServers": entry}), "utf-8")
    return str(path)


def names(servers: list[MCPServerConfig]) -> list[str]:
    return [server.name for server in servers]


@pytest.mark.covers("R-EXCEL-6", "R-EXCEL-7")
def test_a_server_has_the_fields_and_defaults_of_the_document() -> None:
    server = MCPServerConfig("a", "stdio")
    assert server == MCPServerConfig(
        name="a", transport="stdio", command=None, args=None, env=None, url=None, timeout=30
    )
    assert get_type_hints(MCPServerConfig) == {
        "name": str,
        "transport": Literal["stdio", "sse", "streamable_http"],
        "command": str | None,
        "args": list[str] | None,
        "env": dict[str, str] | None,
        "url": str | None,
        "headers": dict[str, str],
        "state_dir": str | None,
        "timeout": int,
        "auto_approve": list[str],
        "scope": str,
    }
    assert (server.args, server.env) == ([], {})
    for config in (
        MCPServerConfig("a", "stdio", "run", env={"TOKEN": "hunter22"}),
        MCPServerConfig("a", "stdio", "run", ["--api-key", "hunter22"]),
        MCPServerConfig("a", "sse", url="https://example.com/sse?token=hunter22"),
        MCPServerConfig("a", "sse", url="https://me:hunter22@example.com/sse"),
        MCPServerConfig("a", "sse", url="no address, but hunter22"),
        MCPServerConfig("a", "stdio", "run", [b"hunter22"]),  # pyright: ignore[reportArgumentType]
    ):
        for shown in (repr(config), pretty_repr(config), pformat(config)):
            assert "'a'" in shown
            assert "hunter22" not in shown


@pytest.mark.covers("R-EXCEL-9", "R-EXCEL-10", "R-EXCEL-58")
def test_the_first_file_that_exists_wins(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = nowhere / "project"
    root.mkdir()
    explicit = str(nowhere / "explicit.json")

    def load() -> list[str]:
        return names(MCPConfigLoader.load(explicit, str(root)))

    assert MCPConfigLoader.load(explicit, str(root)) == []
    file_of(nowhere / "home/.excelmanus/mcp.json", "home")
    assert load() == ["home"]
    file_of(root / "mcp.json", "workspace")
    assert load() == ["workspace"]
    file_of(Path(explicit), "explicit")
    assert load() == ["explicit"]
    monkeypatch.setenv("EXCELMANUS_MCP_CONFIG", file_of(nowhere / "variable.json", "variable"))
    assert load() == ["variable"]
    monkeypatch.setenv("EXCELMANUS_MCP_CONFIG", str(nowhere / "missing.json"))
    assert load() == ["explicit"]
    monkeypatch.setenv("EXCELMANUS_MCP_CONFIG", "")
    assert load() == ["explicit"]


def test_the_workspace_is_the_current_directory_unless_told(nowhere: Path) -> None:
    file_of(nowhere / "mcp.json", "here")
    assert names(MCPConfigLoader.load()) == ["here"]
    file_of(nowhere / "home/other.json", "by tilde")
    assert names(MCPConfigLoader.load("~/other.json")) == ["by tilde"]


@pytest.mark.covers("R-EXCEL-11", "R-EXCEL-48", "R-EXCEL-58")
def test_no_file_at_all_is_nothing_to_talk_about(
    nowhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (nowhere / "mcp.json").mkdir()
    assert MCPConfigLoader.load("missing.json", "missing") == []
    assert MCPConfigLoader.load(strict=True) == []
    assert caplog.records == []


BROKEN = {
    "not JSON": b'{"mcpServers": {,}}',
    "a trailing comma": b'{"mcpServers": {},}',
    "not a number": b'{"mcpServers": {"a": NaN}}',
    "not text": b"\xff\xfe\xfa",
    "nested for ever": b"[" * 100_000,
    "a number of many digits": b'{"mcpServers": ' + b"1" * 10_000 + b"}",
    "empty": b"",
    "a list": b"[]",
}
UNUSED = {"without servers": b"{}", "a list of servers": b'{"mcpServers": []}'}


@pytest.mark.covers("R-EXCEL-12", "R-EXCEL-48", "R-EXCEL-15", "R-EXCEL-65")
@pytest.mark.parametrize("content", BROKEN.values(), ids=list(BROKEN))
def test_a_file_that_cannot_be_used_is_one_error_and_no_servers(
    content: bytes, nowhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (nowhere / "mcp.json").write_bytes(content)
    assert MCPConfigLoader.load() == []
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "pegboard.compat")
    assert "mcp.json" in record.getMessage()
    with pytest.raises(ConfigError):
        MCPConfigLoader.load(strict=True)


@pytest.mark.covers("R-EXCEL-15", "R-EXCEL-48")
@pytest.mark.parametrize("content", UNUSED.values(), ids=list(UNUSED))
def test_a_file_without_servers_is_one_warning(
    content: bytes, nowhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (nowhere / "mcp.json").write_bytes(content)
    assert MCPConfigLoader.load() == []
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "pegboard.compat")
    assert "mcp_config_unusable" in record.getMessage()
    with pytest.raises(ConfigError):
        MCPConfigLoader.load(strict=True)


WRONG = {
    "not JSON": ('{\n  "mcpServers": {,}\n}', 2, 18),
    "a comment": ('{\n  "mcpServers": {} // none\n}', 2, 20),
    "a list": ("\n []", 2, 2),
    "no servers": (' {"servers": {}}', 1, 2),
    "a list of servers": ('{\n"mcpServers": []}', 2, 15),
    "no object": ('{"mcpServers": {\n"ä": 5}}', 2, 6),
    "a field that is missing": ('{"mcpServers": {\n"a": {"transport": "stdio"}}}', 2, 6),
    "a field that is wrong": ('{"mcpServers": {"a": {\n"transport": "fax"}}}', 2, 14),
    "a part of a field": (
        '{"mcpServers": {"a": {"transport": "stdio", "command": "x",\n"env": {"PIN": 1}}}}',
        *(2, 8),
    ),
    "the last of two": (
        '{"mcpServers": {"a": {"transport": "sse", "url": "x"},\n"a": 5}}',
        *(2, 6),
    ),
}


@pytest.mark.covers("R-EXCEL-48")
@pytest.mark.parametrize(("text", "line", "column"), WRONG.values(), ids=list(WRONG))
def test_it_is_said_where_a_file_is_wrong(
    text: str, line: int, column: int, nowhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = nowhere / "mcp.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        MCPConfigLoader.load(strict=True)
    error = caught.value
    assert (error.path, error.line, error.column) == ("mcp.json", line, column)
    assert MCPConfigLoader.load() == []
    assert str(error) in caplog.text


@pytest.mark.parametrize(
    "content",
    [
        b'{"mcpServers": {"a": {"env": {"TOKEN": "hunter22"}} oops',
        b'{"mcpServers": {"a": {"env": {"TOKEN": "hunter22",}}}}',
        b'{"mcpServers": {"a": {"env": {"TOKEN": "hunter22\xff"}}}}',
        b'{"mcpServers": {"a": {"transport": "hunter22"}}}',
    ],
    ids=["not JSON", "nearly JSON", "not UTF-8", "an entry"],
)
def test_an_error_holds_nothing_of_the_file(content: bytes, nowhere: Path) -> None:
    (nowhere / "mcp.json").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        MCPConfigLoader.load(strict=True)
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter22" not in repr((error.args, vars(error), getattr(error, "doc", "")))
        error = error.__context__


TOO_LONG = '{"mcpServers": {"a": {"env": {"TOKEN": "hunter22"}}}}' + "x" * 300


@pytest.mark.covers("R-EXCEL-2", "R-EXCEL-48")
@pytest.mark.parametrize("place", ["EXCELMANUS_MCP_CONFIG", "config_path", "workspace_root"])
def test_a_place_that_cannot_be_looked_at_is_one_error_and_not_quoted(
    place: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {place: TOO_LONG}
    if place.isupper():
        monkeypatch.setenv(place, given.pop(place))
    assert MCPConfigLoader.load(**given) == []
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "pegboard.compat")
    assert f"`{place}`" in record.getMessage()
    with pytest.raises(ConfigError) as caught:
        MCPConfigLoader.load(**given, strict=True)
    assert "hunter22" not in str(caught.value) + caplog.text


@pytest.mark.covers("R-EXCEL-11", "R-EXCEL-48")
def test_a_home_that_cannot_be_looked_at_is_nothing_to_talk_about(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", f"/{TOO_LONG}")
    monkeypatch.setenv("USERPROFILE", f"/{TOO_LONG}")
    assert MCPConfigLoader.load(strict=True) == []
    assert caplog.records == []


def test_a_byte_order_mark_does_no_harm(nowhere: Path) -> None:
    (nowhere / "mcp.json").write_text(SAMPLE, "utf-8-sig")
    assert names(MCPConfigLoader.load()) == ["filesystem", "web-search"]


@pytest.mark.covers("R-EXCEL-18", "R-EXCEL-15", "R-EXCEL-16", "R-EXCEL-8", "R-EXCEL-7")
def test_the_sample_of_the_document(nowhere: Path) -> None:
    (nowhere / "mcp.json").write_text(SAMPLE, "utf-8")
    assert MCPConfigLoader.load() == [
        MCPServerConfig(
            name="filesystem",
            transport="stdio",
            command="npx",
            args=["-y", "@modelcontextprotocol/server-filesystem", "/tmp"],
            env={},
        ),
        MCPServerConfig(
            name="web-search", transport="sse", url="http://localhost:8080/sse", timeout=60
        ),
    ]


@pytest.mark.covers("R-EXCEL-19")
def test_the_schema_can_be_exported_and_accepts_the_sample() -> None:
    schema = mcp_config_schema()
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(json.loads(SAMPLE))
    schema.clear()
    assert mcp_config_schema()["required"] == ["mcpServers"]


STDIO: dict[str, Any] = {"transport": "stdio", "command": "x"}
INVALID: dict[str, Any] = {
    "no transport": {"command": "x"},
    "an unknown transport": {"transport": "pigeon", "command": "x"},
    "stdio without a command": {"transport": "stdio"},
    "stdio with an empty command": {"transport": "stdio", "command": ""},
    "sse without a url": {"transport": "sse", "command": "x"},
    "no object": "npx",
    "null": None,
    "args of numbers": {**STDIO, "args": [1]},
    "args as text": {**STDIO, "args": "-y"},
    "env of numbers": {**STDIO, "env": {"PIN": 12345678}},
    "no time": {**STDIO, "timeout": 0},
    "half a second": {**STDIO, "timeout": 0.5},
    "no number of seconds": {**STDIO, "timeout": "30"},
    "no end of seconds": {**STDIO, "timeout": float("inf")},
    "headers of numbers": {"transport": "sse", "url": "http://h/sse", "headers": {"PIN": 12345678}},
    "a folder that is none": {**STDIO, "stateDir": 7},
}


@pytest.mark.covers("R-EXCEL-13", "R-EXCEL-14", "R-EXCEL-16", "R-EXCEL-17")
@pytest.mark.covers("R-EXCEL-7", "R-EXCEL-15", "R-EXCEL-48")
@pytest.mark.parametrize("entry", INVALID.values(), ids=list(INVALID))
def test_an_invalid_entry_costs_a_warning_and_only_itself(
    entry: Any, caplog: pytest.LogCaptureFixture
) -> None:
    servers = parse({"mcpServers": {"good": STDIO, "bad": entry, "other": STDIO}})
    assert names(servers) == ["good", "other"]
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "pegboard.compat")
    assert "'bad'" in record.getMessage()
    assert "12345678" not in record.getMessage(), "it may be a secret"
    assert validate(entry) is None


@pytest.mark.covers("R-EXCEL-14")
def test_a_valid_entry_becomes_a_value_with_or_without_its_name() -> None:
    assert validate({"name": "a", **STDIO}) == MCPServerConfig("a", "stdio", "x")
    assert validate(STDIO) == MCPServerConfig("", "stdio", "x")
    assert validate({**STDIO, "timeout": 60.0, "note": "whatever"}).timeout == 60
    assert parse({"mcpServers": {"key": {"name": "field", **STDIO}}})[0].name == "key"
    assert parse({"mcpServers": {}}) == []


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 99) | st.floats(allow_nan=False) | st.text("ab "),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner, max_size=2),
    max_leaves=4,
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "transport": st.sampled_from(["stdio", "sse", "http"]) | ANYTHING,
        "command": st.text("ab", min_size=1) | ANYTHING,
        "args": st.lists(st.text("ab")) | ANYTHING,
        "env": st.dictionaries(st.text("ab"), st.text("ab")) | ANYTHING,
        "url": st.just("http://h/sse") | ANYTHING,
        "timeout": st.integers(-1, 99) | ANYTHING,
        "other": ANYTHING,
    },
)
# Written down here, and not taken from the loader: it is what the loader is compared with.
REFERENCE = jsonschema.Draft7Validator(
    {
        "type": "object",
        "properties": {
            "transport": {"enum": ["stdio", "sse"]},
            "command": {"type": "string"},
            "args": {"type": "array", "items": {"type": "string"}},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "url": {"type": "string"},
            "timeout": {"type": "integer", "minimum": 1},
        },
        "required": ["transport"],
    }
)


@pytest.mark.covers("R-EXCEL-16")
@given(ENTRIES)
def test_the_loader_takes_what_the_schema_takes_if_it_can_be_started(entry: Any) -> None:
    fits = REFERENCE.is_valid(entry)
    needed = {"stdio": "command", "sse": "url"}
    if fits and entry.get(needed[entry["transport"]], "").strip():
        assert validate(entry) is not None
    server = validate(entry)
    if server is not None:
        # More than the schema takes: whole numbers of other forms, and what is not used.
        used = {"stdio": {"command", "args", "env"}, "sse": {"url"}}[server.transport]
        given = {key: it for key, it in entry.items() if key in used and it is not None}
        assert REFERENCE.is_valid(
            {**given, "transport": server.transport, "timeout": server.timeout}
        )
        assert given[needed[server.transport]].strip()
