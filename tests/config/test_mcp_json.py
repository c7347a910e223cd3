import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.config import LoadedConfig, OAuthConfig, ServerConfig, Timeouts, load_servers
from pegboard.errors import ConfigError
from pegboard.upstream.http.headers import configured_headers


def in_no_environment(options: dict[str, Any]) -> dict[str, Any]:
    return {"environ": {}, **options}


def load(tmp_path: Path, text: str, **options: Any) -> LoadedConfig:
    path = tmp_path / "mcp.json"
    path.write_text(text, "utf-8")
    return load_servers(path, **in_no_environment(options))


def one(entry: object, **options: Any) -> ServerConfig:
    loaded = load_servers({"mcpServers": {"one": entry}}, **in_no_environment(options))
    assert loaded.problems == ()
    (server,) = loaded.servers
    return server


def complaint(entry: object, **options: Any) -> str:
    loaded = load_servers({"mcpServers": {"one": entry}}, **in_no_environment(options))
    assert loaded.servers == ()
    (problem,) = loaded.problems
    assert (problem.server, problem.severity, problem.line) == ("one", "error", None)
    return problem.message


def warning(entry: object, **options: Any) -> str:
    loaded = load_servers({"mcpServers": {"one": entry}}, **in_no_environment(options))
    assert len(loaded.servers) == 1
    (problem,) = loaded.problems
    assert problem.severity == "warning"
    return problem.message


def test_claude_desktop_and_cursor() -> None:
    server = one({"command": "npx", "args": ["-y", "server", "/tmp"], "env": {"DEBUG": "1"}})
    assert server == ServerConfig(
        name="one",
        transport="stdio",
        command="npx",
        args=("-y", "server", "/tmp"),
        env={"DEBUG": "1"},
    )


def test_claude_code_over_http() -> None:
    server = one(
        {"type": "http", "url": "https://x.test/mcp", "headers": {"Authorization": "${T}"}},
        environ={"T": "Bearer abcdef"},
    )
    assert server == ServerConfig(
        name="one",
        transport="streamable_http",
        url="https://x.test/mcp",
        headers={"Authorization": "Bearer abcdef"},
        secrets=frozenset({"Bearer abcdef"}),
    )


def test_vs_code_with_inputs_and_workspace(tmp_path: Path) -> None:
    path = tmp_path / ".vscode/mcp.json"
    path.parent.mkdir()
    path.write_text(
        """{
          // asked for by VS Code
          "inputs": [{"type": "promptString", "id": "api-key", "password": true}],
          "servers": {
            "one": {
              "type": "stdio",
              "command": "${workspaceFolder}/run",
              "env": {"KEY": "${input:api-key}"},
              "gallery": true,
            },
          },
        }""",
        "utf-8",
    )
    (server,) = load_servers(path, environ={"API_KEY": "secret-key"}).servers
    assert server.command == f"{tmp_path}/run"
    assert server.env == {"KEY": "secret-key"}
    (server,) = load_servers(path, environ={}, inputs={"api-key": "other-key"}).servers
    assert server.env == {"KEY": "other-key"}
    (problem,) = load_servers(path, environ={}).problems
    assert "API_KEY" in problem.message
    assert (problem.line, problem.column) == (8, 30)


def test_the_settings_of_vs_code() -> None:
    settings = {"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"a": {"command": "x"}}}}
    loaded = load_servers(settings, environ={})
    assert [server.name for server in loaded.servers] == ["a"]
    assert loaded.problems == ()


def test_windsurf_and_gemini_addresses() -> None:
    assert one({"serverUrl": "https://x.test/mcp"}).url == "https://x.test/mcp"
    server = one({"httpUrl": "https://x.test/sse", "timeout": 30, "trust": False})
    assert (server.transport, server.url) == ("streamable_http", "https://x.test/sse")
    assert server.timeouts == Timeouts(call=30)


def test_zed_in_both_forms(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        """{
          "theme": "One Dark",
          "context_servers": {
            "new": {"source": "custom", "enabled": false, "command": "uv", "args": ["run"]},
            "old": {"command": {"path": "uvx", "args": ["x"], "env": {"A": "b"}}, "settings": {}},
            "extension": {"source": "extension", "settings": {"x": 1}},
          }
        }""",
    )
    new, old = loaded.servers
    assert (new.command, new.args, new.enabled) == ("uv", ("run",), False)
    assert (old.command, old.args, old.env) == ("uvx", ("x",), {"A": "b"})
    (problem,) = loaded.problems
    assert (problem.server, problem.severity) == ("extension", "warning")


def test_our_own_fields() -> None:
    server = one(
        {
            "url": "https://x.test/mcp",
            "timeouts": {"connect": 1, "list": 2, "call": 3.5, "idle": 4},
            "timeout": 99,
            "bearer_token": "${T}",
            "protocol": "2026-07-28",
            "allow": ["read_*"],
            "deny": ["read_all"],
            "prefix": "p_",
            "tags": ["a"],
            "category": "web",
            "lazy": True,
            "stateless": True,
            "sharing": "per_client",
            "max_result_chars": 100,
            "idempotent": ["read_*"],
            "trust_hints": True,
            "oauth": {"client_id": "me", "scopes": "a b", "callbackPort": 8123},
        },
        environ={"T": "abcdefgh"},
    )
    assert server == ServerConfig(
        name="one",
        transport="streamable_http",
        url="https://x.test/mcp",
        timeouts=Timeouts(connect=1, list=2, call=3.5, idle=4),
        bearer_token="abcdefgh",
        protocol="2026-07-28",
        allow=("read_*",),
        deny=("read_all",),
        prefix="p_",
        tags=("a",),
        category="web",
        lazy=True,
        stateless=True,
        sharing="per_client",
        max_result_chars=100,
        idempotent=("read_*",),
        trust_hints=True,
        oauth=OAuthConfig(client_id="me", scopes=("a", "b"), redirect_port=8123),
        secrets=frozenset({"abcdefgh"}),
    )


def test_gemini_can_switch_oauth_off() -> None:
    entry = {"httpUrl": "https://x.test/mcp", "oauth": {"enabled": False, "clientId": "x"}}
    assert one(entry).oauth is None
    entry["oauth"] = {"enabled": True, "clientId": "x"}
    assert one(entry).oauth == OAuthConfig(client_id="x")


def test_results_are_cut_at_5000_characters_unless_told() -> None:
    assert one({"command": "x"}).max_result_chars == 5000


def test_lists_of_other_clients_become_allow_and_deny() -> None:
    server = one({"command": "x", "includeTools": ["a"], "excludeTools": ["b"], "alwaysAllow": []})
    assert (server.allow, server.deny) == (("a",), ("b",))
    assert one({"command": "x", "disabledTools": ["c"], "autoApprove": ["*"]}).deny == ("c",)


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"command": "x"}, "stdio"),
        ({"url": "https://x.test/mcp"}, "streamable_http"),
        ({"url": "https://x.test/sse"}, "sse"),
        ({"url": "https://x.test/sse/?token=${T}"}, "sse"),
        ({"url": "https://x.test/mcp?next=/sse"}, "streamable_http"),
        ({"url": "https://x.test/nurse"}, "streamable_http"),
        ({"url": "ws://x.test/mcp"}, "websocket"),
        ({"url": "wss://x.test/sse"}, "websocket"),
        ({"url": "https://x.test/sse", "type": "http"}, "streamable_http"),
        ({"url": "https://x.test/", "type": "sse"}, "sse"),
        ({"url": "https://x.test/", "type": "SSE"}, "sse"),
        ({"url": "https://x.test/", "type": "streamable_http"}, "streamable_http"),
        ({"url": "https://x.test/", "type": "streamable-http"}, "streamable_http"),
        ({"url": "https://x.test/", "type": "streamableHttp"}, "streamable_http"),
        ({"url": "https://x.test/", "transport": "Streamable HTTP"}, "streamable_http"),
        ({"url": "https://x.test/", "transportType": "sse"}, "sse"),
        ({"command": "x", "url": "https://x.test/", "type": "stdio"}, "stdio"),
        ({"command": "x", "url": "https://x.test/", "type": "http"}, "streamable_http"),
    ],
)
def test_the_transport_is_told_or_inferred(entry: dict[str, Any], transport: str) -> None:
    assert one(entry, environ={"T": "x"}).transport == transport


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("npx", "must be an object"),
        (None, "must be an object"),
        ({}, "`command` or a `url`"),
        ({"command": ""}, "`command` or a `url`"),
        ({"command": "x", "url": "https://x.test"}, "both"),
        ({"type": "stdio", "url": "https://x.test"}, "needs a `command`"),
        ({"type": "sse", "command": "x"}, "needs a `url`"),
        ({"type": "carrier-pigeon", "command": "x"}, "unknown `type`"),
        ({"type": "memory", "command": "x"}, "unknown `type`"),
        ({"type": "streamabel-http", "url": "https://x.test"}, "mean `streamable_http`?"),
        ({"type": "stdoi", "command": "x"}, "Did you mean `stdio`?"),
        ({"url": "ftp://x.test"}, "begins with http://"),
        ({"url": "http://["}, "begins with http://"),
        ({"url": "https://x.test:port/"}, "port in the `url`"),
        ({"url": "https://x.test:99999/mcp"}, "from 1 to 65535"),
        ({"url": "https://x.test:0/mcp"}, "from 1 to 65535"),
        ({"url": "https://x .test/mcp"}, "begins with http://"),
        (
            {"url": "https://x.test/m\ncp"},
            "not allowed in an address. Look for a space or a line break",
        ),
        ({"url": "x.test/mcp"}, "begins with http://"),
        ({"url": "https://x.test", "headers": {"A": "b\r\nc: d"}}, "header 'A'"),
        ({"url": "https://x.test", "headers": {"A": "é"}}, "header 'A'"),
        ({"url": "https://x.test", "headers": {"A": "b", "A B": "c"}}, "A header of"),
        ({"url": "https://x.test", "bearer_token": "${LINE}"}, "`bearer_token`"),
        ({"url": "https://x.test", "bearer_token": "${ACCENT}"}, "`bearer_token`"),
        ({"command": "x\0y"}, "null character"),
        ({"command": "x", "args": ["\ud800"]}, "null character"),
        ({"command": "x", "env": {"": "y"}}, "A variable in"),
        ({"command": "x", "env": {"A": "b", "A=B": "y"}}, "A variable in"),
        ({"command": "x", "args": "y"}, "`args`: expected `array`, got `str`"),
        ({"command": "x", "args": "y"}, "Write a list with one text for each argument"),
        ({"command": ["npx", "-y"]}, "Write only the program into `command`"),
        ({"command": "x", "args": ["y", None]}, "`args[1]`"),
        ({"command": "x", "env": {"A": ["b"]}}, "`env.A`"),
        ({"command": "x", "lazy": "yes"}, "`lazy`: expected `bool`, got `str`"),
        ({"command": "x", "timeout": -1}, "`timeout`"),
        ({"command": "x", "timeouts": {"call": 0}}, "`timeouts.call`"),
        ({"command": "x", "timeouts": {"call": 1e300}}, "call timeout"),
        ({"command": "x", "sharing": "none"}, "'shared', 'per_client'"),
        ({"command": "x", "stateless": True}, "`stateless`"),
        ({"command": {"args": []}}, "missing required field `path`"),
        ({"url": "https://x.test", "oauth": {"flow": "x"}}, "`oauth.flow`"),
        ({"command": "x", "max_result_chars": 0}, "`max_result_chars`"),
        ({"command": "${NO_SUCH_THING}"}, "NO_SUCH_THING is not set"),
        ({"command": "x", "envFile": "nowhere.env"}, "Server 'one' has an `envFile` that cannot"),
    ],
)
def test_a_bad_entry_says_what_is_wrong(entry: object, words: str) -> None:
    assert words in complaint(entry, environ={"LINE": "abc\n", "ACCENT": "é"})


@given(st.text(max_size=3), st.text(max_size=5), st.text(max_size=5))
def test_what_is_accepted_here_is_accepted_by_the_connection(
    name: str, value: str, token: str
) -> None:
    entry = {"url": "https://x.test", "headers": {name: value}, "bearer_token": token}
    content = {"mcpServers": {"one": entry}}
    for server in load_servers(content, environ={}, undefined="keep").servers:
        configured_headers(server)


def test_bad_entries_are_skipped_and_the_others_stay(tmp_path: Path) -> None:
    text = """{"mcpServers": {
      "good": {"command": "x"},
      "bad": {"command": "x",
              "args": [1, {}]},
      "": {"command": "x"},
      "also good": {"url": "https://x.test"}
    }}"""
    loaded = load(tmp_path, text)
    assert [server.name for server in loaded.servers] == ["good", "also good"]
    assert [(it.server, it.line, it.column) for it in loaded.problems] == [
        ("bad", 4, 27),
        ("", 5, 11),
    ]
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, strict=True)
    assert (caught.value.line, caught.value.column) == (4, 27)
    assert caught.value.path == str(tmp_path / "mcp.json")


def test_all_faults_of_an_entry_are_reported_at_once() -> None:
    entry = {"command": 5, "args": "x", "lazy": 1}
    loaded = load_servers({"mcpServers": {"one": entry}}, environ={})
    assert len(loaded.problems) == 3


def test_warnings_do_not_stop_a_strict_reader() -> None:
    content = {"mcpServers": {"one": {"command": "x", "surprise": 1}}}
    assert len(load_servers(content, strict=True).servers) == 1


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "${NOPE}"},
        {"command": "x", "env": {"KEY": "${input:key}"}, "args": ["${KEY}"]},
        {"url": "${NOPE}/mcp", "headers": {"X-Key": "${env:NOPE}"}},
        {"url": "https://x.test", "bearer_token": "${file:nope}"},
    ],
)
@pytest.mark.parametrize("off", [{"disabled": True}, {"enabled": False}])
def test_a_server_that_is_switched_off_needs_no_values(
    entry: dict[str, Any], off: dict[str, bool]
) -> None:
    loaded = load_servers({"mcpServers": {"one": entry | off}}, strict=True, environ={})
    assert loaded.problems == ()
    assert [it.enabled for it in loaded.servers] == [False]
    assert load_servers({"mcpServers": {"one": entry}}, environ={}).servers == ()


def test_a_server_that_is_switched_off_may_be_unfinished() -> None:
    content = {"mcpServers": {"one": {"args": ["x"], "disabled": True}}}
    (problem,) = load_servers(content, strict=True, environ={}).problems
    assert problem.severity == "warning"
    assert one({"command": "x", "disabled": True}).enabled is False
    assert one({"command": "x", "disabled": False}).enabled is True
    assert one({"command": "x", "isActive": False}).enabled is False


def test_an_unknown_field_is_a_warning_with_the_nearest_name() -> None:
    assert "`comand`" in warning({"command": "x", "comand": "y"})
    assert "Did you mean `command`?" in warning({"command": "x", "comand": "y"})
    assert "Did you mean `connect`?" in warning({"command": "x", "timeouts": {"conect": 3}})
    assert "unknown field `zzz`." in warning({"command": "x", "zzz": 1})
    assert one({"command": "x", "_comment": "hello", "//": "x", "description": "y"})


def test_two_spellings_of_one_field_are_a_warning() -> None:
    entry = {"url": "https://a.test", "serverUrl": "https://b.test"}
    assert "`serverUrl` means the same" in warning(entry)


def test_a_timeout_whose_unit_is_in_doubt_is_a_warning() -> None:
    assert "`timeout` of server 'one' is read as seconds" in warning(
        {"command": "x", "timeout": 2000}
    )
    assert "`timeout` of server 'one' is read as milliseconds" in warning(
        {"command": "x", "timeout": 7200}
    )
    loaded = load_servers({"mcpServers": {"one": {"command": "x", "timeout": 60000}}})
    assert loaded.servers[0].timeouts.call == 60
    assert one({"command": "x", "timeout": 60}).timeouts.call == 60
    assert one({"command": "x", "timeout": 2000, "timeouts": {"call": 5}}).timeouts.call == 5


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"command": "x", "headers": {"A": "b"}}, "is a program, so its `headers` is not used"),
        ({"command": "x", "bearer_token": "${T}"}, "its `bearer_token` is not used"),
        ({"command": "x", "oauth": True}, "its `oauth` is not used"),
        ({"command": "x", "tls": {"ca": "ca.pem"}}, "its `tls` is not used"),
        ({"command": "x", "proxy": "http://proxy.test"}, "its `proxy` is not used"),
        ({"url": "http://x.test", "tls": {"ca": "ca.pem"}}, "begins with http://, so its `tls`"),
        ({"url": "ws://x.test", "tls": {"ca": "ca.pem"}}, "Write wss:// if the server speaks TLS"),
        ({"url": "https://x.test", "args": ["-y"]}, "so its `args` is not used"),
        ({"url": "https://x.test", "env": {"A": "b"}}, "so its `env` is not used"),
        ({"url": "https://x.test", "headers": {"Mcp-Session-Id": "b"}}, "`Mcp-Session-Id` of"),
        ({"url": "https://x.test", "headers": {"accept": "b"}}, "it is not sent. Remove it"),
        ({"url": "https://x.test", "oauth": {"flow": "client_credentials"}}, "`client_id` and"),
        (
            {"url": "https://x.test", "oauth": {"flow": "client_credentials", "clientId": "me"}},
            "needs `client_secret`",
        ),
        ({"command": "npx -y server"}, "looks like a whole command line"),
        ({"command": "/usr/bin/python -m server"}, "looks like a whole command line"),
    ],
)
def test_an_entry_that_contradicts_itself_is_a_warning(entry: object, words: str) -> None:
    assert words in warning(entry, environ={"T": "t"})


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "/opt/my programs/server"},
        {"command": "C:\\Program Files\\server.exe"},
        {"command": "my server", "args": ["--port", 1]},
        {"command": "x", "headers": {}, "oauth": False},
        {"url": "https://x.test", "env": {}, "args": []},
        {"url": "https://x.test", "headers": {"X-Accept": "b"}, "oauth": True},
    ],
)
def test_an_entry_that_may_mean_what_it_says_is_no_warning(entry: object) -> None:
    one(entry)


def test_a_fault_or_doubt_about_one_field_is_placed_at_that_field(tmp_path: Path) -> None:
    text = """{"mcpServers": {
      "a": {"command": "x",
            "envFile": "gone.env"},
      "b": {"command": "x",
            "headers": {"A": "b"}},
      "c": {"url": "https://x.test",
            "headers": {"Host": "b"}},
      "d": {"command": "x",
            "type": "studio"}
    }}"""
    loaded = load(tmp_path, text)
    assert [(it.server, it.line) for it in loaded.problems] == [
        *(("a", 3), ("b", 5), ("c", 7), ("d", 9))
    ]


def test_a_bare_dollar_name_is_a_warning() -> None:
    assert "only the form `${NAME}`" in warning({"command": "x", "env": {"A": "$HOME"}})


def test_duplicates_are_reported_where_they_stand(tmp_path: Path) -> None:
    text = """{"mcpServers": {
      "one": {"command": "first"},
      "one": {"command": "a", "command": "second"}
    }}"""
    loaded = load(tmp_path, text)
    assert [server.command for server in loaded.servers] == ["second"]
    assert [(it.server, it.line, it.column, it.severity) for it in loaded.problems] == [
        (None, 3, 7, "warning"),
        ("one", 3, 31, "warning"),
    ]


def test_many_duplicates_among_many_servers_are_told_in_one_go(tmp_path: Path) -> None:
    # Quadratic, this would take longer than a test may.
    servers = "".join(f'"s{number}": 0, ' for number in range(10_000))
    fields = ", ".join(['"lazy": true'] * 50_001)
    loaded = load(tmp_path, f'{{"mcpServers": {{{servers}"last": {{"command": "x", {fields}}}}}}}')
    assert [server.name for server in loaded.servers] == ["last"]
    assert sum(problem.server == "last" for problem in loaded.problems) == 50_000


def test_many_faults_of_one_entry_are_told_in_one_go(tmp_path: Path) -> None:
    variables = ",".join(f'\n"A{number}": "$B"' for number in range(60_000))
    loaded = load(
        tmp_path, f'{{"mcpServers": {{"one": {{"command": "x", "env": {{{variables}}}}}}}}}'
    )
    assert [problem.line for problem in loaded.problems] == list(range(2, 60_002))


def test_several_sections_are_read_together() -> None:
    content = {"mcpServers": {"a": {"command": "x"}}, "servers": {"a": {"command": "y"}}}
    loaded = load_servers(content, environ={})
    assert [server.command for server in loaded.servers] == ["y"]
    assert "two sections" in loaded.problems[0].message


def test_servers_with_nothing_around_them_are_read() -> None:
    loaded = load_servers({"one": {"command": "x"}, "$schema": "y"}, environ={})
    assert [server.name for server in loaded.servers] == ["one"]
    assert loaded.problems == ()


@pytest.mark.parametrize(
    ("text", "words", "severity"),
    [
        ("[]", "must be an object", "error"),
        ('{"mcpServers": []}', "`mcpServers` must be an object", "error"),
        ('{"theme": "dark"}', "`context_servers`, but `theme`.", "error"),
        ('{"a": 1, "b": 2, "c": 3, "d": 4}', "but `a`, `b`, `c` and 1 more.", "error"),
        ('{"mcpServer": {}}', "Did you mean `mcpServers` instead of `mcpServer`?", "error"),
        ('{"servres": {}}', "Did you mean `servers` instead of `servres`?", "error"),
        ('{"observe": {}}', "`context_servers`, but `observe`.", "error"),
        ('{"skills": "s", "servres": {}}', "does not read `servres` of this file.", "warning"),
        ('{"context-servers": {}}', "Did you mean `context_servers`", "error"),
        ('{"gateway": {}}', "The file has no `mcpServers`", "warning"),
    ],
)
def test_a_file_that_lists_no_servers_says_so(
    tmp_path: Path, text: str, words: str, severity: str
) -> None:
    (problem,) = load(tmp_path, text).problems
    assert words in problem.message
    assert problem.severity == severity
    assert (problem.line, problem.column) != (None, None)
    assert load(tmp_path, "{}").problems == ()


def test_a_foreign_key_beside_the_servers_is_a_warning(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"command": "x"}},\n "gatway": {}, "theme": 1}'
    loaded = load(tmp_path, text)
    (problem,) = loaded.problems
    assert [it.name for it in loaded.servers] == ["a"]
    assert (problem.severity, problem.kind, problem.line) == ("warning", "unknown_field", 2)
    assert "does not read `gatway`, `theme` of this file. Did you mean `gateway`" in problem.message


@pytest.mark.parametrize("beside", ["gateway", "defaults", "inputs", "$schema", "_note", "//"])
def test_what_belongs_beside_the_servers_is_no_problem(tmp_path: Path, beside: str) -> None:
    value: object = [] if beside == "inputs" else {}
    assert load(tmp_path, json.dumps({"mcpServers": {}, beside: value})).problems == ()


def test_other_settings_of_an_editor_are_no_problem(tmp_path: Path) -> None:
    vscode = '{"mcp": {"servers": {}}, "editor.fontSize": 12}'
    zed = '{"context_servers": {}, "theme": "dark"}'
    assert [load(tmp_path, it).problems for it in (vscode, zed)] == [(), ()]


def test_broken_json_is_an_error_in_any_case(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, '{\n"mcpServers": {\n')
    assert (caught.value.line, caught.value.column) == (3, 1)


def test_paths_begin_at_the_file_and_at_home(tmp_path: Path) -> None:
    entries = {
        "relative": {"command": "./run", "cwd": "sub"},
        "home": {"command": "~/bin/run", "cwd": "~"},
        "absolute": {"command": "x", "cwd": "/srv"},
        "no home": {"command": "~ada/run"},
    }
    loaded = load(tmp_path, json.dumps({"mcpServers": entries}), environ={"HOME": "/home/ada"})
    assert [(server.command, server.cwd) for server in loaded.servers] == [
        ("./run", str(tmp_path / "sub")),
        ("/home/ada/bin/run", "/home/ada"),
        ("x", "/srv"),
        ("~ada/run", None),
    ]


def test_numbers_and_booleans_become_text_and_null_is_left_out() -> None:
    server = one({"command": "x", "args": [1, 2.5, True], "env": {"A": 1, "B": False, "C": None}})
    assert server.args == ("1", "2.5", "true")
    assert server.env == {"A": "1", "B": "false"}


def test_an_argument_may_speak_of_the_entrys_own_environment() -> None:
    server = one(
        {"command": "x", "args": ["--header", "Authorization:${AUTH}"], "env": {"AUTH": "${T}"}},
        environ={"T": "Bearer abcdefgh", "AUTH": "other"},
    )
    assert server.args == ("--header", "Authorization:Bearer abcdefgh")
    assert server.redact("abcdefgh") == "***"


def test_no_expansion_inside_keys() -> None:
    assert one({"command": "x", "env": {"${A}": "b"}}, environ={"A": "c"}).env == {"${A}": "b"}


def test_the_policy_for_undefined_variables_reaches_the_loader() -> None:
    assert one({"command": "x", "args": ["${A}"]}, undefined="keep").args == ("${A}",)
    assert one({"command": "x", "args": ["${A}"]}, undefined="empty").args == ("",)


def test_strange_mappings_do_not_break_it() -> None:
    cycle: dict[Any, Any] = {}
    cycle["env"] = cycle
    cycle["command"] = "x"
    content: dict[Any, Any] = {"mcpServers": {"a": cycle, 5: {"command": "y", 6: 7}, "b": object()}}
    loaded = load_servers(content, environ={})
    assert [server.name for server in loaded.servers] == ["5"]
    assert {problem.server for problem in loaded.problems} == {"a", "b"}


def test_a_huge_file_of_servers_is_read(tmp_path: Path) -> None:
    entries = {f"s{number}": {"command": "x", "args": ["y"]} for number in range(2000)}
    loaded = load(tmp_path, json.dumps({"mcpServers": entries}))
    assert len(loaded.servers) == 2000
