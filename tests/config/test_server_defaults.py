import json
from pathlib import Path

import pytest

from pegboard.config import load_servers
from pegboard.config.files.servers_file import ServersFile, entry_of

PROXY = "http://proxy.example.com:3128"


def file_with(folder: Path, **content: object) -> Path:
    path = folder / "mcp.json"
    path.write_text(json.dumps(content), "utf-8")
    return path


def test_every_program_receives_the_shared_variables_and_an_address_does_not(tmp_path: Path):
    path = file_with(
        tmp_path,
        mcpServers={
            "a": {"command": "x", "env": {"PORT": 80}},
            "b": {"url": "https://example.com/mcp"},
        },
        defaults={"env": {"HTTPS_PROXY": "${OUR_PROXY}", "LEVEL": 3, "NONE": None}},
    )
    loaded = load_servers(path, environ={"OUR_PROXY": PROXY}, strict=True)
    program, address = loaded.servers
    assert program.shared_env == {"HTTPS_PROXY": PROXY, "LEVEL": "3"}
    assert program.env == {"PORT": "80"}
    assert address.shared_env == {}


def test_null_in_an_entry_leaves_a_shared_variable_out(tmp_path: Path):
    path = file_with(
        tmp_path,
        mcpServers={"a": {"command": "x", "env": {"LEVEL": None}}},
        defaults={"env": {"LEVEL": 3}},
    )
    (server,) = load_servers(path, strict=True).servers
    assert server.shared_env == {}


def test_an_argument_may_name_a_shared_variable(tmp_path: Path):
    path = file_with(
        tmp_path,
        mcpServers={"a": {"command": "x", "args": ["${LEVEL}"]}},
        defaults={"env": {"LEVEL": "high"}},
    )
    (server,) = load_servers(path, environ={}, strict=True).servers
    assert server.args == ("high",)


@pytest.mark.parametrize(
    ("everywhere", "own", "is_inherited"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
def test_the_entry_decides_before_the_defaults_what_is_inherited(
    everywhere: bool | None, own: bool | None, is_inherited: bool
):
    content = {
        "mcpServers": {"a": {"command": "x", "inherit_network": own}},
        "defaults": {"inherit_network": everywhere},
    }
    (server,) = load_servers(content, strict=True).servers
    assert server.inherit_network is is_inherited


def test_an_undefined_variable_is_reported_where_it_stands(tmp_path: Path):
    path = tmp_path / "mcp.json"
    path.write_text(
        '{"mcpServers": {"a": {"command": "x"}},\n "defaults": {"env": {"KEY": "${MISSING}"}}}',
        "utf-8",
    )
    loaded = load_servers(path, environ={})
    (problem,) = loaded.problems
    assert loaded.servers == ()
    assert (problem.line, problem.kind) == (2, "variable")
    assert "`defaults.env.KEY`" in problem.message


def test_mistakes_in_the_section_are_reported_once(tmp_path: Path):
    servers = {name: {"command": "x"} for name in "ab"}
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    path = file_with(tmp_path, mcpServers=servers, defaults={"evn": {}, "env": {"TOKEN": secret}})
    found = load_servers(path).problems
    assert [(it.severity, it.kind) for it in found] == [
        ("warning", "unknown_field"),
        ("warning", "plain_secret"),
    ]
    assert "Did you mean `env`?" in found[0].message
    assert all(secret not in it.message for it in found)


@pytest.mark.parametrize("section", [5, {"env": 5}, {"inherit_network": "no"}])
def test_a_section_that_cannot_be_used_is_an_error(section: object):
    found = load_servers({"mcpServers": {}, "defaults": section}).problems
    assert [it.severity for it in found] == ["error"]
    assert found[0].message.startswith("`defaults` cannot be used")


def test_shared_variables_are_redacted_and_never_written_into_an_entry():
    content = {
        "mcpServers": {"a": {"command": "x"}},
        "defaults": {"env": {"KEY": "a long secret"}},
    }
    (server,) = load_servers(content).servers
    assert server.redact("it is a long secret") == "it is ***"
    assert entry_of(server) == {"type": "stdio", "command": "x"}


def test_the_password_in_an_inherited_address_is_redacted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pass-of-mine@proxy.example.com:3128")
    monkeypatch.setenv("UV_INDEX", "inner=https://u:of-the-index@pypi.example.com/simple")
    said = "no answer from http://me:pass-of-mine@proxy; u:of-the-index"
    content = {"mcpServers": {"a": {"command": "x"}}}
    (inherits,) = load_servers(content).servers
    (other,) = load_servers({**content, "defaults": {"inherit_network": False}}).servers
    assert inherits.redact(said) == "no answer from http://me:***@proxy; u:***"
    assert other.redact(said) == said


def test_the_file_keeps_the_section_when_a_server_is_added(tmp_path: Path):
    path = file_with(tmp_path, mcpServers={}, defaults={"env": {"LEVEL": "1"}})
    file = ServersFile(path)
    file.put("a", {"command": "x"})
    file.save()
    (server,) = load_servers(path, strict=True).servers
    assert server.shared_env == {"LEVEL": "1"}
    assert file.readings()["a"].config == server
