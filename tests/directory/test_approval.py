"""Allow and deny lists: what an entry is, what is left out, and what a gateway does with it."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

from pegboard import Hub
from pegboard.config import ServerApproval, ServerConfig, load_servers
from pegboard.config.approval import identities_of
from pegboard.config.servers import RegistryOrigin
from pegboard.errors import ConfigError
from pegboard.model.principal import ALL_SCOPES, Principal
from pegboard.server.process.assembly import ServeOptions, open_serving
from tests.cli.handy import SCRIPT
from tests.cli.own_machine import ENTRY, Run, in_process
from tests.config.own_folders import use_own_folders
from tests.directory.registry_server import Registry, documents, serving
from tests.gateway.clients import FULL, Caller


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_own_folders(tmp_path, monkeypatch)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(capsys)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Generator[Registry]:
    with serving(Registry(documents())) as running:
        monkeypatch.setenv("PEGBOARD_REGISTRY", running.url)
        yield running


def config(command: str = "", *args: str, **fields: Any) -> ServerConfig:
    return ServerConfig(name="it", transport="stdio", command=command, args=args, **fields)


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        ("npx -y @acme/x@1.2.3 --flag", "npm:@acme/x"),
        ("npx @acme/x", "npm:@acme/x"),
        ("npx -y x@1", "npm:x"),
        ("npx --package evil x", "command:npx"),
        ("npx -c evil", "command:npx"),
        ("/tmp/npx -y x", "command:/tmp/npx"),
        ("uvx x==1", "pypi:x"),
        ("uvx --from x==1 script", "pypi:x"),
        ("uvx --python 3.12 x@1", "pypi:x"),
        ("uvx --index-url https://evil x", "command:uvx"),
        ("docker run -i --rm -e A -v /a:/b ghcr.io/acme/x:1 --foo", "oci:ghcr.io/acme/x"),
        ("docker run localhost:5000/x@sha256:00", "oci:localhost:5000/x"),
        ("docker run --privileged x", "command:docker"),
        ("docker exec x y", "command:docker"),
        ("dnx X@1 --yes", "nuget:X"),
        ("python server.py", "command:python"),
        ("npx", "command:npx"),
    ],
)
def test_an_entry_is_what_it_runs_for_certain(line: str, identity: str) -> None:
    assert identities_of(config(*line.split())) == (identity,)


def test_a_variable_that_steers_the_runner_makes_the_package_uncertain() -> None:
    env = {"NPM_CONFIG_REGISTRY": "https://evil.example.com"}
    assert identities_of(config("npx", "-y", "x", env=env)) == ("command:npx",)


def test_the_name_of_the_registry_counts_besides() -> None:
    origin = RegistryOrigin(url="https://r", name="io.github.acme/x", version="1")
    it = config("npx", "-y", "@acme/x@1", registry=origin)
    for pattern in ("io.github.acme/*", "npm:@acme/*"):
        assert ServerApproval(allow=(pattern,)).objection(it) == ""
        assert "registry.deny" in ServerApproval(deny=(pattern,), allow=("*",)).objection(it)
    assert "registry.allow" in ServerApproval(allow=("io.github.other/*",)).objection(it)
    assert ServerApproval().objection(it) == ""


def write(path: Path, servers: dict[str, Any], **sections: Any) -> Path:
    path.write_text(json.dumps({"mcpServers": servers, **sections}), "utf-8")
    return path


SERVERS = {
    "good": {"command": "uvx", "args": ["good==1"]},
    "evil": {"command": "uvx", "args": ["evil==1"]},
    "far": {"url": "https://mcp.example.com/mcp?key=canary-12345678"},
}


def test_entries_outside_the_lists_are_left_out_with_the_reason(tmp_path: Path) -> None:
    path = write(tmp_path / "mcp.json", SERVERS, registry={"allow": ["pypi:good"]})
    loaded = load_servers(path)
    assert [it.name for it in loaded.servers] == ["good"]
    refused = [it for it in loaded.problems if it.kind == "not_allowed"]
    assert [(it.server, it.severity, it.line) for it in refused] == [
        ("evil", "error", 1),
        ("far", "error", 1),
    ]
    assert "`registry.allow` has no pattern for 'pypi:evil'" in refused[0].message
    assert "canary" not in refused[1].message
    write(path, SERVERS, registry={"deny": ["pypi:evil", "https://mcp.example.com/*"]})
    assert [it.name for it in load_servers(path).servers] == ["good"]


def test_a_section_that_cannot_be_read_allows_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "mcp.json", SERVERS, registry={"deny": "pypi:evil"})
    with pytest.raises(ConfigError, match="registry"):
        load_servers(path)


def test_commands_leave_it_out_and_say_why(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "mcp.json", {"evil": SERVERS["evil"]}, registry={"deny": ["pypi:evil"]})
    assert "forbids 'pypi:evil'" in run("status").out
    said = subprocess.run(
        [*ENTRY, "doctor", "--json"], capture_output=True, check=False, timeout=50
    )
    codes = [it["code"] for it in json.loads(said.stdout)["findings"]]
    assert (said.returncode, "not_allowed" in codes) == (1, True)


def test_find_leaves_out_what_is_denied(run: Run, registry: Registry, tmp_path: Path) -> None:
    write(tmp_path / "mcp.json", {}, registry={"deny": ["io.github.example/*"]})
    said = run("find", "--json")
    names = {it["name"] for it in json.loads(said.out)}
    assert names == {"com.example/postgres", "com.example.search/remote"}
    assert "forbids them: 5." in said.err


def test_add_refuses_what_is_outside_the_lists(
    run: Run, registry: Registry, tmp_path: Path
) -> None:
    path = write(tmp_path / "mcp.json", {}, registry={"allow": ["com.example/*"]})
    before = path.read_bytes()
    given = ("--env", "WEATHER_API_KEY=k", "--yes")
    assert "not allow this server" in run("add", "io.github.example/weather", *given).err
    assert "Not allowed" in run("add", "x", "--", "uvx", "evil").err
    write(path, {}, registry={"registries": ["https://registry.example.com"]})
    assert "not in `registry.registries`" in run("add", "io.github.example/weather", *given).err
    write(path, {}, registry={"allow": ["com.example/*"]})
    assert path.read_bytes() == before
    words = ("--package", "npm", "--env", "database_url=x", "--yes")
    assert run("add", "com.example/postgres", *words).code == 0


async def test_a_server_that_is_not_allowed_any_more_is_stopped(tmp_path: Path) -> None:
    python = {"command": "python", "args": ["-S", str(SCRIPT)]}
    servers = {"one": {**python, "lazy": True}, "two": {**python, "lazy": True, "cwd": "/"}}
    path = write(tmp_path / "mcp.json", servers)
    with anyio.fail_after(30):
        async with Hub.open(path) as hub:
            assert set(hub.servers) == {"one", "two"}
            write(path, servers, registry={"allow": ["nothing"]})
            await hub.reload()
            assert set(hub.servers) == set()


async def test_the_lists_of_the_gateway_apply_to_the_file_of_a_tenant(tmp_path: Path) -> None:
    def entry(name: str) -> dict[str, Any]:
        env = {"NOTES": str(tmp_path / name)}
        return {"command": sys.executable, "args": ["-S", str(SCRIPT)], "env": env}

    write(tmp_path / "team.json", {"good": entry("good"), "evil": {"url": "http://127.0.0.1:9/x"}})
    main = write(
        tmp_path / "mcp.json",
        {},
        registry={"allow": ["command:*"]},
        gateway={"tenants": {"team": "team.json"}},
    )
    member = Principal(tenant="team", subject="it", scopes=ALL_SCOPES)
    with anyio.fail_after(50):
        async with open_serving(ServeOptions(config=str(main))) as opened:
            await opened.hub.start()
            assert await Caller(opened.gateway, face=FULL, principal=member).names()
            hub = await opened.gateway.hub_of("team")
            assert hub is not None
            assert set(hub.servers) == {"good"}
            assert [it.kind for it in hub.loaded.problems] == ["not_allowed"]
