"""The file of each client: read, planned, connected, and brought back byte for byte."""

import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pegboard.clients import (
    CLIENTS,
    OUR_NAME,
    ClientFile,
    FoundServer,
    Machine,
    connect,
    disconnect,
    files_of_clients,
    plan_import,
    served_by_us,
    servers_in,
    take_over,
)
from pegboard.config import LoadedConfig, load_servers, parse_jsonc
from pegboard.config.files.servers_file import ServersFile
from pegboard.config.secrets.kept_secrets import keep_secret
from pegboard.errors import ConfigError
from tests.clients.conftest import PLATFORMS, golden, put_in_place

Machines = Callable[[str], Machine]

FILES = ["-y", "@modelcontextprotocol/server-filesystem", "/home/ada/notes"]
DOCKER = ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN"]
CANARY = "ghp_CanaryCanary0000000000001"

UNDERSTOOD: dict[str, dict[str, Any]] = {
    "claude-desktop": {
        "files": {"command": "npx", "args": FILES},
        "github": {
            "command": "docker",
            "args": [*DOCKER, "ghcr.io/github/github-mcp-server"],
            "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": CANARY},
        },
    },
    "claude-code": {
        "sentry": {
            "type": "http",
            "url": "https://mcp.sentry.dev/mcp",
            "headers": {"Authorization": "Bearer canary-code-0002-token"},
        },
        "linear": {"type": "sse", "url": "https://mcp.linear.app/sse"},
        "shop-db": {
            "type": "stdio",
            "command": "./scripts/db-server",
            "args": [],
            "env": {},
            "cwd": "/",
        },
        "old": {"command": "old-server", "cwd": "/", "enabled": False},
    },
    "cursor": {
        "files": {"command": "npx", "args": FILES},
        "search": {
            "command": "search-server",
            "args": ["--api-key", "canary-cursor-0003"],
            "env_file": "FOLDER/search.env",
        },
        "docs": {"url": "https://docs.example.com/mcp", "oauth": {"client_id": "pegs"}},
    },
    "vscode": {
        "tracker": {
            "type": "http",
            "url": "https://tracker.example.com/${input:region}/mcp",
            "headers": {"X-Api-Key": "${input:tracker-key}"},
        },
        "git": {"type": "stdio", "command": "uvx", "args": ["mcp-server-git"]},
    },
    "windsurf": {
        "crm": {
            "url": "https://crm.example.com/mcp?key=canary0004windsurf",
            "headers": {"X-Team": "${env:TEAM}"},
            "deny": ["delete_*"],
        },
        "off": {"command": "off-server", "args": [], "enabled": False},
    },
    "zed": {
        "postgres-context-server": None,
        "older": {
            "command": "older-server",
            "args": ["run"],
            "env": {"API_TOKEN": "canary-zed-0005-token"},
        },
        "newer": {"command": "newer-server", "args": [], "env": {}, "enabled": False},
    },
    "gemini": {
        "maps": {
            "type": "http",
            "url": "https://maps.example.com/mcp",
            "headers": {"Authorization": "Bearer ${MAPS_TOKEN}"},
            "timeouts": {"call": 5.0},
            "allow": ["find_*"],
        },
        "feed": {"type": "sse", "url": "https://feed.example.com/events"},
        "parked": {
            "command": "parked-server",
            "env": {"PARKED_SECRET": "canary-gemini-0006"},
            "enabled": False,
        },
    },
    "codex": {
        "files": {
            "command": "npx",
            "args": FILES,
            "env": {"LANG": "${LANG}"},
            "timeouts": {"connect": 20},
        },
        "wiki": {
            "url": "https://wiki.example.com/mcp",
            "headers": {"X-Api-Key": "canary-codex-0007-key", "X-Team": "${TEAM}"},
            "env": {"UNUSED": "1"},
            "bearer_token": "${WIKI_TOKEN}",
            "timeouts": {"call": 45.5},
            "enabled": False,
        },
    },
    "opencode": {
        "lint": {
            "command": "npx",
            "args": ["-y", "lint-server"],
            "env": {"LINT_TOKEN": "canary-opencode-0008"},
            "timeouts": {"call": 15.0},
        },
        "team": {
            "url": "https://team.example.com/mcp",
            "headers": {"Authorization": "Bearer ${env:TEAM_TOKEN}"},
            "oauth": False,
            "enabled": False,
        },
    },
    "qwen": {
        "graph": {
            "type": "http",
            "url": "https://graph.example.com/mcp",
            "headers": {"X-Key": "${GRAPH_KEY}"},
            "deny": ["drop_*"],
        },
        "rest": {"command": "rest-server", "args": ["--stdio"], "cwd": "/srv", "enabled": False},
    },
    "cline": {
        "browser": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "browser-server"],
            "env": {"BROWSER_KEY": "canary-cline-0009-key"},
            "timeout": 90,
        },
        "events": {"type": "sse", "url": "https://events.example.com/stream", "enabled": False},
        "nested": {"type": "streamableHttp", "url": "https://nested.example.com/mcp"},
    },
    "roo": {
        "boards": {
            "type": "streamable-http",
            "url": "https://boards.example.com/mcp",
            "headers": {"X-API-Key": "canary-roo-0010-key"},
            "deny": ["delete_board"],
        },
        "shell": {"command": "shell-server", "cwd": "/srv/shell"},
    },
    "lmstudio": {
        "hub": {
            "url": "https://hub.example.com/mcp",
            "headers": {"Authorization": "Bearer canary-lmstudio-0011"},
        },
    },
    "kiro": {
        "cloud": {
            "command": "uvx",
            "args": ["cloud-server@latest"],
            "env": {"CLOUD_SECRET": "canary-kiro-0012-secret", "REGION": "${CLOUD_REGION}"},
            "deny": ["delete_stack"],
            "enabled": False,
        },
        "gate": {"url": "https://gate.example.com/mcp"},
    },
    "copilot": {
        "tickets": {
            "type": "local",
            "command": "tickets-server",
            "args": ["--stdio"],
            "env": {"TICKETS_TOKEN": "canary-copilot-0013"},
            "allow": ["find_ticket", "add_comment"],
        },
        "site": {
            "type": "http",
            "url": "https://site.example.com/mcp",
            "headers": {},
            "allow": ["*"],
        },
    },
    "junie": {
        "gradle": {"command": "gradle-server", "args": ["--project", "/home/ada/shop"]},
        "space": {
            "url": "https://space.example.com/mcp",
            "headers": {"Authorization": "Bearer canary-junie-0014-token"},
        },
    },
    "crush": {
        "paths": {
            "type": "stdio",
            "command": "node",
            "args": ["/opt/paths/server.js"],
            "env": {"PATHS_KEY": "canary-crush-0015-key"},
            "timeout": 120,
            "deny": ["remove"],
        },
        "hooks": {
            "type": "http",
            "url": "https://hooks.example.com/mcp",
            "headers": {"Authorization": "Bearer ${HOOKS_TOKEN}"},
            "enabled": False,
        },
    },
    "goose": {
        "wiki-search": {
            "command": "uvx",
            "args": ["wiki-server", "--language=en", "it's: #1"],
            "env": {"WIKI_TOKEN": "${WIKI_TOKEN}", "WIKI_SECRET": "canary-goose-0016-key"},
            "timeouts": {"call": 120},
        },
        "calendar": {
            "url": "https://calendar.example.com/mcp",
            "headers": {"Authorization": "Bearer ${CALENDAR_TOKEN}"},
            "allow": ["find_event", "add_event"],
            "enabled": False,
        },
        # It is on one line, which is not read: see `yaml_section`.
        "stream": None,
    },
}


@pytest.mark.parametrize("client", CLIENTS)
def test_each_dialect_is_understood(client: str, machine: Machines) -> None:
    path = put_in_place(client, machine("linux"))
    expected = {**UNDERSTOOD[client]}
    if client == "cursor":
        expected["search"] = {**expected["search"], "env_file": str(path.parent / "search.env")}
    found = servers_in(ClientFile(path=path, client=client))
    assert {it.name: it.entry for it in found} == expected
    assert "canary" not in repr(found).lower()


def written_forms(content: bytes) -> list[bytes]:
    crlf = content.replace(b"\n", b"\r\n")
    return [content, crlf, b"\xef\xbb\xbf" + content, content.rstrip(b"\n")]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_connect_and_disconnect_leave_the_file_as_it_was(
    client: str, platform: str, machine: Machines
) -> None:
    here, known = machine(platform), CLIENTS[client]
    entry = known.program_entry("/opt/pegboard", ["serve", "--stdio"])
    for content in written_forms(golden(client)):
        path = put_in_place(client, here, content)
        before = servers_in(ClientFile(path=path, client=client))
        done = connect(known, here, entry)
        after = {it.name: it.entry for it in servers_in(ClientFile(path=path, client=client))}
        ours = after.pop(OUR_NAME) or {}
        assert (ours["command"], ours["args"]) == ("/opt/pegboard", ["serve", "--stdio"])
        assert after == {it.name: it.entry for it in before}
        assert done.backup is not None
        if os.name == "posix":
            assert stat.S_IMODE(done.backup.stat().st_mode) == 0o600
            assert stat.S_IMODE(done.backup.parent.stat().st_mode) == 0o700
        now = path.read_bytes()
        assert now.count(b"\r\n") == (now.count(b"\n") if b"\r\n" in content else 0)
        assert now.startswith(b"\xef\xbb\xbf") == content.startswith(b"\xef\xbb\xbf")
        undone = disconnect(known, here)
        assert undone is not None
        assert undone.is_identical
        assert path.read_bytes() == content
        assert not done.backup.exists()
        assert disconnect(known, here) is None


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_others_changed_keeps_their_changes(client: str, machine: Machines) -> None:
    here, known = machine("linux"), CLIENTS[client]
    path = put_in_place(client, here)
    names = [it.name for it in servers_in(ClientFile(path=path, client=client))]
    connect(known, here, known.program_entry("/opt/pegboard", ["serve"]), take_out=names[:1])
    changed = path.read_bytes()
    changed += b"# later\n" if client in ("codex", "goose") else b"// later\n"
    path.write_bytes(changed)
    undone = disconnect(known, here)
    assert undone is not None
    assert not undone.is_identical
    assert undone.put_back == tuple(names[:1])
    assert undone.backup is not None
    assert undone.backup.read_bytes() == golden(client)
    left = path.read_text("utf-8")
    assert "later" in left
    assert "/opt/pegboard" not in left
    assert sorted(it.name for it in servers_in(ClientFile(path=path, client=client))) == sorted(
        names
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_comments_and_everything_else_survive_where_the_file_was_changed(
    client: str, machine: Machines
) -> None:
    here, known = machine("linux"), CLIENTS[client]
    path = put_in_place(client, here)
    connect(known, here, known.program_entry("/opt/pegboard", []))
    path.write_bytes(path.read_bytes() + b"\n")
    disconnect(known, here)
    assert path.read_bytes() == golden(client) + b"\n"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_was_not_there_is_gone_again(client: str, machine: Machines) -> None:
    here, known = machine("linux"), CLIENTS[client]
    path = known.file(here)
    done = connect(known, here, known.program_entry("/opt/pegboard", ["serve", "--stdio"]))
    assert done.backup is None
    [found] = servers_in(ClientFile(path=path, client=client))
    assert found.name == OUR_NAME
    assert (found.entry or {})["command"] == "/opt/pegboard"
    undone = disconnect(known, here)
    assert undone is not None
    assert undone.is_identical
    assert not path.exists()


def test_addresses_are_written_as_each_client_has_them(machine: Machines) -> None:
    url = "http://127.0.0.1:8765/mcp"
    written = {
        name: client.address_entry(url) for name, client in CLIENTS.items() if client.url_field
    }
    assert written == {
        "claude-code": {"type": "http", "url": url},
        "cursor": {"url": url},
        "vscode": {"type": "http", "url": url},
        "windsurf": {"serverUrl": url},
        "zed": {"source": "custom", "url": url},
        "gemini": {"httpUrl": url},
        "codex": {"url": url},
        "opencode": {"type": "remote", "url": url},
        "qwen": {"httpUrl": url},
        "cline": {"type": "streamableHttp", "url": url},
        "roo": {"type": "streamable-http", "url": url},
        "lmstudio": {"url": url},
        "kiro": {"url": url},
        "copilot": {"tools": ["*"], "type": "http", "url": url},
        "junie": {"url": url},
        "crush": {"type": "http", "url": url},
        "goose": {
            "name": "pegboard",
            "description": "All your MCP servers",
            "enabled": True,
            "timeout": 300,
            "type": "streamable_http",
            "uri": url,
        },
    }
    for name, entry in written.items():
        path = put_in_place(name, machine("linux"))
        connect(CLIENTS[name], machine("linux"), entry)
        config = {it.name: it for it in servers_in(ClientFile(path=path, client=name))}
        assert (config[OUR_NAME].entry or {})["url"] == url


def test_headers_are_written_as_each_client_has_them(machine: Machines) -> None:
    url, headers = "https://tools.example.com/mcp", {"Authorization": "Bearer pb_1"}
    for name, client in CLIENTS.items():
        if client.url_field is None:
            continue
        path = put_in_place(name, machine("linux"))
        before = path.read_bytes()
        connect(client, machine("linux"), client.address_entry(url, headers))
        config = {it.name: it for it in servers_in(ClientFile(path=path, client=name))}
        assert (config[OUR_NAME].entry or {})["headers"] == headers, name
        disconnect(client, machine("linux"))
        assert path.read_bytes() == before


def test_connecting_twice_is_undone_at_once(machine: Machines) -> None:
    here, known = machine("linux"), CLIENTS["cursor"]
    path = put_in_place("cursor", here)
    connect(known, here, known.program_entry("/opt/pegboard", []), take_out=["docs"])
    connect(known, here, known.address_entry("http://127.0.0.1:1/mcp"))
    names = [it.name for it in servers_in(ClientFile(path=path, client="cursor"))]
    assert names == ["files", "search", "docs", OUR_NAME]
    assert disconnect(known, here) is not None
    assert path.read_bytes() == golden("cursor")


def test_an_entry_that_somebody_wrote_by_hand_comes_back(machine: Machines) -> None:
    here, known = machine("linux"), CLIENTS["cursor"]
    own = b'{"mcpServers": {"pegboard": {"url": "http://127.0.0.1:1/mcp"}}}'
    path = put_in_place("cursor", here, own)
    connect(known, here, known.program_entry("/opt/pegboard", []))
    assert disconnect(known, here) is not None
    assert path.read_bytes() == own
    assert disconnect(known, here) is not None
    assert path.read_bytes() == b'{"mcpServers": {}}'


def test_everything_of_every_client_is_taken_over_once(tmp_path: Path, machine: Machines) -> None:
    here = machine("linux")
    for name in CLIENTS:
        put_in_place(name, here)
    (here.home / ".cursor" / "search.env").write_bytes(b"A=b\n")
    found = [it for file in files_of_clients(here) for it in servers_in(file)]
    plan = plan_import(found, LoadedConfig())
    assert "canary" not in repr(plan).lower()
    assert {(it.client, it.name): it.status for it in plan if it.status != "new"} == {
        ("cursor", "files"): "same",
        ("zed", "postgres-context-server"): "unusable",
        ("codex", "files"): "conflict",
        ("goose", "stream"): "unusable",
    }
    file = ServersFile(tmp_path / "mcp.json")
    done = take_over(file, plan, keep=keep_secret)
    file.save()
    text = file.path.read_text("utf-8")
    assert "canary" not in text.lower()
    assert sum(len(it.kept) for it in done) == 16
    environ = {"HOME": str(tmp_path), "MAPS_TOKEN": "m", "TEAM": "t", "WIKI_TOKEN": "w"}
    environ |= {"TRACKER_KEY": "k", "TEAM_TOKEN": "t", "GRAPH_KEY": "g", "CLOUD_REGION": "r"}
    environ |= {"HOOKS_TOKEN": "h", "CALENDAR_TOKEN": "c"}
    loaded = load_servers(file.path, environ=environ)
    assert [it for it in loaded.problems if it.kind == "plain_secret"] == []
    servers = {it.name: it for it in loaded.servers}
    assert servers["github"].env["GITHUB_PERSONAL_ACCESS_TOKEN"] == CANARY
    assert servers["search"].args == ("--api-key", "canary-cursor-0003")
    assert servers["crm"].url == "https://crm.example.com/mcp?key=canary0004windsurf"
    assert servers["sentry"].headers["Authorization"] == "Bearer canary-code-0002-token"
    assert not servers["newer"].enabled
    again = plan_import(found, load_servers(file.path, undefined="keep"))
    assert {it.status for it in again} == {"same", "unusable", "conflict"}
    assert served_by_us(CLIENTS["claude-desktop"], here, loaded.servers) == ("files", "github")


def test_a_server_of_another_folder_is_another_server(machine: Machines) -> None:
    here = machine("linux")
    entries = {
        "a": {"command": "npm", "args": ["start"], "cwd": "/a"},
        "b": {"command": "npm", "args": ["start"], "cwd": "/b"},
        "c": {"command": "npx", "args": ["-y", "time"], "cwd": "/a"},
        "d": {"command": "npx", "args": ["-y", "time"]},
        "e": {"command": "npx", "args": ["-y", "files", "./x"], "cwd": "/a"},
        "f": {"command": "npx", "args": ["-y", "files", "./x"], "cwd": "/b"},
    }
    content = msgspec.json.encode({"mcpServers": entries})
    file = ClientFile(path=put_in_place("cursor", here, content), client="cursor")
    plan = plan_import(servers_in(file), LoadedConfig())
    assert {it.name: it.status for it in plan} == {
        "a": "new",
        "b": "new",
        "c": "new",
        "d": "same",
        "e": "new",
        "f": "new",
    }


def test_what_is_replaced_can_come_back_under_another_name(machine: Machines) -> None:
    here = machine("linux")
    entries = {"a": {"command": "y"}, "b": {"command": "x"}}
    content = msgspec.json.encode({"mcpServers": entries})
    file = ClientFile(path=put_in_place("cursor", here, content), client="cursor")
    present = load_servers({"mcpServers": {"a": {"command": "x"}}})
    plan = plan_import(servers_in(file), present, on_conflict="replace")
    assert [(it.status, it.writes_as) for it in plan] == [("conflict", "a"), ("new", "b")]


@pytest.mark.parametrize(
    ("ours", "clients", "plan"),
    [
        # What is replaced stays under the name that the client has for it, too.
        ("a=x", ["b=x a=y"], "b:new:b a:conflict:a"),
        ("a=x b=y", ["a=y b=z"], "a:conflict:a b:conflict:b"),
        ("a=x b=y", ["a=y b=x"], "a:conflict:a b:conflict:b"),
        # One server under two names is written once.
        ("a=x", ["c=y a=y"], "c:same:- a:conflict:a"),
        ("a=x b=y", ["a=z b=z"], "a:conflict:a b:same:-"),
        ("a=x b=y", ["a=y"], "a:same:-"),
        ("a=x b=y c=z", ["a=y b=z"], "a:same:- b:same:-"),
        # One name in two clients: the first of them gets it, and the other one is not lost.
        ("", ["a=x", "a=y"], "a:new:a a:conflict:a-windsurf"),
        ("a=w", ["a=x", "a=y"], "a:conflict:a a:conflict:a-windsurf"),
        ("a=x a-windsurf=w", ["a=x", "a=y"], "a:same:- a:conflict:a-windsurf-2"),
        ("a=x a-windsurf=y", ["a=x", "a=y"], "a:same:- a:same:-"),
        ("a=w", ["a=x", "a=x"], "a:conflict:a a:same:-"),
        # It is there already as another client has it, so it stays: the next import would
        # bring it back.
        ("a=y", ["a=x", "a=y"], "a:conflict:a-cursor a:same:-"),
        ("a=x b=w", ["a=z", "a=x b=z"], "a:same:- a:same:- b:conflict:b"),
    ],
)
def test_replacing_writes_no_name_and_no_server_twice(
    ours: str, clients: list[str], plan: str, machine: Machines
) -> None:
    def entries(text: str) -> dict[str, Any]:
        pairs = [it.split("=") for it in text.split()]
        return {"mcpServers": {name: {"command": command} for name, command in pairs}}

    here = machine("linux")
    found: list[FoundServer] = []
    for name, servers in zip(("cursor", "windsurf"), clients, strict=False):
        path = put_in_place(name, here, msgspec.json.encode(entries(servers)))
        found += servers_in(ClientFile(path=path, client=name))
    present = load_servers(entries(ours))
    planned = plan_import(found, present, on_conflict="replace")
    shown = [f"{it.name}:{it.status}:{it.writes_as or '-'}" for it in planned]
    assert " ".join(shown) == plan


def test_a_server_with_a_question_is_found_among_many(machine: Machines) -> None:
    content = {
        "servers": {
            f"s{it}": {"command": "npx", "args": [f"p{it}"], "env": {"K": "${input:k}"}}
            for it in range(50)
        }
    }
    here = machine("linux")
    path = put_in_place("vscode", here, msgspec.json.encode(content))
    found = servers_in(ClientFile(path=path, client="vscode"))
    answered = {
        name: {**entry, "env": {"K": "answer"}} for name, entry in content["servers"].items()
    }
    plan = plan_import(found, load_servers({"mcpServers": answered}))
    assert [(it.status, it.same_as) for it in plan] == [("same", it.name) for it in plan]
    plan = plan_import(found, LoadedConfig())
    assert {it.status for it in plan} == {"new"}


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "foo", "args": 5},
        {"command": {"path": "foo", "env": ["A=1"]}},
        {"command": {"path": "foo", "env": {"A": "1"}}, "env": 7},
    ],
)
def test_an_odd_entry_is_unusable_and_the_others_are_taken_over(
    entry: dict[str, Any], machine: Machines
) -> None:
    here = machine("linux")
    content = msgspec.json.encode({"mcpServers": {"odd": entry, "time": {"command": "uvx"}}})
    file = ClientFile(path=put_in_place("cursor", here, content), client="cursor")
    plan = plan_import(servers_in(file), LoadedConfig())
    assert [it.status for it in plan] == ["unusable", "new"]
    known = CLIENTS["cursor"]
    connect(known, here, known.program_entry("/opt/pegboard", []))
    assert disconnect(known, here) is not None
    assert file.path.read_bytes() == content


def test_a_project_may_be_in_a_folder_that_begins_with_a_dot(
    machine: Machines, tmp_path: Path
) -> None:
    here = msgspec.structs.replace(machine("linux"), directory=tmp_path / ".dotfiles")
    here.directory.mkdir()
    (here.directory / ".mcp.json").write_bytes(b'{"mcpServers": {"a": {"command": "./a"}}}')
    [file] = files_of_clients(here)
    [server] = servers_in(file)
    assert (server.entry or {})["cwd"] == str(here.directory)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is locked to root")
def test_a_folder_that_must_not_be_looked_into_is_left_out(machine: Machines) -> None:
    here = machine("linux")
    locked = here.home / ".cursor"
    locked.mkdir(parents=True)
    locked.chmod(0)
    try:
        assert files_of_clients(here) == []
        assert not CLIENTS["codex"].is_here(here)
    finally:
        locked.chmod(0o700)


def test_reconnecting_leaves_one_backup_and_disconnecting_none(machine: Machines) -> None:
    here, known = machine("linux"), CLIENTS["cursor"]
    path = put_in_place("cursor", here)
    connect(known, here, known.program_entry("/opt/pegboard", []))
    path.write_bytes(path.read_bytes() + b"\n")
    again = connect(known, here, known.program_entry("/opt/pegboard", []))
    assert again.backup is not None
    folder = again.backup.parent
    assert [it.name for it in folder.glob("*.backup")] == [again.backup.name]
    disconnect(known, here)
    assert list(folder.glob("*.backup")) == []
    assert path.read_bytes() == golden("cursor") + b"\n"


def test_an_entry_of_ours_that_somebody_changed_is_taken_out_with_its_key(
    machine: Machines,
) -> None:
    here, known = machine("linux"), CLIENTS["cursor"]
    path = put_in_place("cursor", here)
    headers = {"Authorization": "Bearer our-own-key"}
    connect(known, here, known.address_entry("https://tools.example.com/mcp", headers))
    path.write_bytes(path.read_bytes().replace(b'"url": "https://t', b'"x": 1, "url": "https://t'))
    assert disconnect(known, here) is not None
    assert b"our-own-key" not in path.read_bytes()


def test_a_damaged_record_does_not_pass_for_a_success(machine: Machines) -> None:
    here, known = machine("linux"), CLIENTS["cursor"]
    path = put_in_place("cursor", here)
    done = connect(known, here, known.address_entry("https://tools.example.com/mcp"))
    assert done.backup is not None
    (done.backup.parent / "cursor.json").write_bytes(b'{"path": 1')
    with pytest.raises(ConfigError, match="Remove the entry by hand"):
        disconnect(known, here)
    assert b"tools.example.com" in path.read_bytes()
    assert done.backup.exists()


def test_a_file_that_was_removed_meanwhile_leaves_its_backup(machine: Machines) -> None:
    here, known = machine("linux"), CLIENTS["cursor"]
    path = put_in_place("cursor", here)
    connect(known, here, known.program_entry("/opt/pegboard", []))
    path.unlink()
    again = connect(known, here, known.program_entry("/opt/pegboard", []))
    assert again.backup is not None
    assert again.backup.read_bytes() == golden("cursor")


def test_questions_in_a_planted_file_take_no_time(machine: Machines) -> None:
    here = machine("linux")
    args = ["${input:a}" * 30 + "Z"]
    servers = {
        "one": {"command": "foo", "args": ["a" * 60]},
        "two": {"command": "foo", "args": args},
        "three": {"command": "foo", "args": ["aZbZ"]},
        "four": {"command": "foo", "args": ["${input:a}Z${input:a}Z"]},
    }
    content = msgspec.json.encode({"servers": servers})
    file = ClientFile(path=put_in_place("vscode", here, content), client="vscode")
    plan = plan_import(servers_in(file), LoadedConfig())
    assert [it.status for it in plan] == ["new", "new", "new", "same"]


def test_a_client_whose_file_moved_is_disconnected_first(machine: Machines, tmp_path: Path) -> None:
    here, known = machine("linux"), CLIENTS["codex"]
    path = put_in_place("codex", here)
    entry = known.program_entry("/opt/pegboard", [])
    connect(known, here, entry)
    moved = msgspec.structs.replace(here, environ={"CODEX_HOME": str(tmp_path / "moved")})
    with pytest.raises(ConfigError, match="pegboard disconnect codex"):
        connect(known, moved, entry)
    assert disconnect(known, moved) is not None
    assert path.read_bytes() == golden("codex")
    connect(known, moved, entry)
    assert (tmp_path / "moved" / "config.toml").is_file()


@pytest.mark.parametrize("content", [b"", b"\n", b"{}", b'{"mcpServers": null}\n'])
def test_a_file_with_nothing_in_it_is_a_file(content: bytes, machine: Machines) -> None:
    here, known = machine("linux"), CLIENTS["cursor"]
    path = put_in_place("cursor", here, content)
    connect(known, here, known.address_entry("http://127.0.0.1:1/mcp"))
    assert list(parse_jsonc(path.read_bytes()).root.value["mcpServers"]) == [OUR_NAME]
    disconnect(known, here)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"[]", b'{"mcpServers": []}', b"{", b"\xff", b'"canary"'])
def test_a_file_that_cannot_be_understood_is_left_alone(content: bytes, machine: Machines) -> None:
    here, known = machine("linux"), CLIENTS["cursor"]
    path = put_in_place("cursor", here, content)
    with pytest.raises(ConfigError) as caught:
        connect(known, here, known.address_entry("http://127.0.0.1:1/mcp"))
    assert caught.value.path == str(path)
    assert "canary" not in str(caught.value)
    assert path.read_bytes() == content


def test_an_answered_question_does_not_make_another_server(
    tmp_path: Path, machine: Machines
) -> None:
    here = machine("linux")
    path = put_in_place("vscode", here)
    found = servers_in(ClientFile(path=path, client="vscode"))
    file = ServersFile(tmp_path / "mcp.json")
    answers = {(path, "tracker-key"): "canary-answer", (path, "region"): "us"}
    take_over(file, plan_import(found, LoadedConfig()), keep=keep_secret, answers=answers)
    file.save()
    loaded = load_servers(file.path, strict=True)
    assert loaded.servers[0].url == "https://tracker.example.com/us/mcp"
    assert [it.status for it in plan_import(found, loaded)] == ["same", "same"]
    assert served_by_us(CLIENTS["vscode"], here, loaded.servers) == ("tracker", "git")


def test_projects_that_are_gone_are_not_taken_over(machine: Machines) -> None:
    content = b'{"projects": {"/no/such/folder": {"mcpServers": {"a": {"command": "x"}}}}}'
    path = put_in_place("claude-code", machine("linux"), content)
    [planned] = plan_import(servers_in(ClientFile(path=path, client="claude-code")), LoadedConfig())
    assert planned.status == "unusable"
    assert planned.problem == "The folder of its project no longer exists: /no/such/folder"


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_to_somebody_s_dotfiles_stays_a_link(
    is_there: bool, machine: Machines, tmp_path: Path
) -> None:
    here, known = machine("linux"), CLIENTS["cursor"]
    path, target = known.file(here), tmp_path / "dotfiles.json"
    path.parent.mkdir(parents=True)
    path.symlink_to(target)
    if is_there:
        target.write_bytes(golden("cursor"))
        target.chmod(0o644)
    connect(known, here, known.program_entry("/opt/pegboard", []))
    assert path.is_symlink()
    assert b"/opt/pegboard" in target.read_bytes()
    disconnect(known, here)
    assert path.is_symlink()
    assert target.exists() is is_there
    if is_there:
        assert target.read_bytes() == golden("cursor")
        assert stat.S_IMODE(target.stat().st_mode) == 0o644


def test_tables_that_other_tables_stand_between_are_taken_out_and_put_back(
    machine: Machines,
) -> None:
    here, known = machine("linux"), CLIENTS["codex"]
    before = (
        b'[mcp_servers.a]\ncommand = "a"\n\n[projects."/x"]\ntrust = 1\n\n'
        b'[mcp_servers.b]\ncommand = "b"\n\n[other]\ny = 2\n\n[mcp_servers.c]\ncommand = "c"\n'
    )
    path = put_in_place("codex", here, before)
    entry = known.program_entry("/opt/pegboard", [])
    assert connect(known, here, entry, take_out=["a", "b", "c"]).taken_out == ("a", "b", "c")
    left = tomllib.loads(path.read_text("utf-8"))
    assert list(left["mcp_servers"]) == ["pegboard"]
    assert (left["projects"], left["other"]) == ({"/x": {"trust": 1}}, {"y": 2})
    disconnect(known, here)
    assert path.read_bytes() == before


def test_arguments_that_look_like_variables_are_another_server(machine: Machines) -> None:
    here = machine("linux")
    servers = {
        "one": {"command": "run", "args": ["MODE=1"]},
        "two": {"command": "run", "env": {"MODE": "1"}},
    }
    content = msgspec.json.encode({"mcpServers": servers})
    file = ClientFile(path=put_in_place("cursor", here, content), client="cursor")
    assert [it.status for it in plan_import(servers_in(file), LoadedConfig())] == ["new", "new"]
