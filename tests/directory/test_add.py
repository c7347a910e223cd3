"""`pegboard add io.github.owner/server`: what is written, asked, shown and refused."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pegboard.cli.main import main
from pegboard.config import RegistryOrigin, entry_of, load_servers, user_config_file
from tests.cli.own_machine import Run, at_a_terminal, in_process
from tests.config.own_folders import use_own_folders
from tests.directory.registry_server import Registry, documents, serving

GOLDEN = Path(__file__).parent / "golden"


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


def written(name: str) -> dict[str, Any]:
    return json.loads(user_config_file().read_bytes())["mcpServers"][name]


def origin(registry: Registry, name: str, version: str, package: str) -> dict[str, Any]:
    return {"url": registry.url, "name": name, "version": version, "package": package}


def weather(**fields: Any) -> dict[str, Any]:
    """Return the document of the weather server with another package."""
    document = documents("weather")[0]
    (package,) = document["packages"]
    return {**document, "packages": [{**package, "environmentVariables": [], **fields}]}


def argument(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "positional", "value": text, **fields}


def test_a_package_of_pypi_is_pinned_and_its_secret_is_kept_apart(
    run: Run, registry: Registry, tmp_path: Path
) -> None:
    said = run("add", "io.github.example/weather", "--env", "WEATHER_API_KEY=canary-1234", "--yes")
    assert said.code == 0
    assert said.out == f"Added 'weather' to {user_config_file()} (a new file).\n"
    entry = written("weather")
    reference = entry["env"].pop("WEATHER_API_KEY")
    assert entry == {
        "command": "uvx",
        "args": ["weather-mcp-server==0.5.0"],
        "env": {"WEATHER_UNITS": "celsius"},
        "registry": origin(registry, "io.github.example/weather", "0.5.0", "pypi"),
    }
    assert reference.startswith("${file:~/")
    (config,) = load_servers(user_config_file()).servers
    assert config.env["WEATHER_API_KEY"] == "canary-1234"
    for words in ("Licence:", "MIT", "io.github.example", "github.com/example/weather"):
        assert words in said.err
    assert "Runs:         uvx weather-mcp-server==0.5.0" in said.err
    # Only the official registry checks who owns a name; no registry checks what the server does.
    assert "(says the registry, which does not check the code)" in " ".join(said.err.split())


def test_a_package_of_npm_gets_its_arguments_and_a_repeated_one_several(
    run: Run, registry: Registry, tmp_path: Path
) -> None:
    given = ["--env", f"target_dir={tmp_path}", "--env", "target_dir=docs"]
    given += ["--env", "target_dir=~/more", "--as", "files"]
    said = run("add", "io.github.example/filesystem", *given, "--package", "npm", "--lazy", "--yes")
    assert said.code == 0
    folders = [str(tmp_path), str(tmp_path / "docs"), str(tmp_path / "home" / "more")]
    assert written("files") == {
        "command": "npx",
        "args": ["-y", "@example/server-filesystem@1.0.2", *folders],
        "env": {"LOG_LEVEL": "info"},
        "registry": {
            **origin(registry, "io.github.example/filesystem", "1.0.2", "npm"),
            "inputs": {"target_dir": folders},
        },
        "lazy": True,
    }
    (config,) = load_servers(user_config_file()).servers
    (again,) = load_servers({"mcpServers": {"files": entry_of(config)}}).servers
    assert again == config
    assert config.registry == RegistryOrigin(
        url=registry.url, name="io.github.example/filesystem", version="1.0.2", package="npm"
    )
    assert "https://npm.example.com; what this machine is configured with is used" in said.err


def test_an_address_gets_its_variables_and_headers(run: Run, registry: Registry) -> None:
    values = ["tenant=a/b", "token=canary-5678"]
    given = [word for it in values for word in ("--env", it)]
    said = run("add", "com.example/postgres", "--package", "remote", *given, "--yes")
    assert said.code == 0
    entry = written("postgres")
    assert entry["url"] == "https://mcp.example.com/postgres/a%2Fb"
    assert entry["headers"]["Authorization"].startswith("Bearer ${file:")
    assert entry["headers"]["X-Region"] == "eu"
    assert "canary" not in user_config_file().read_text("utf-8")
    (config,) = load_servers(user_config_file()).servers
    assert config.headers["Authorization"] == "Bearer canary-5678"


def test_streamable_http_is_taken_before_sse(run: Run, registry: Registry) -> None:
    assert run("add", "com.example.search/remote", "--env", "X-API-Key=canary-1", "--yes").code == 0
    entry = written("remote")
    assert (entry["type"], entry["url"]) == ("http", "https://search.example.com/mcp")


def test_what_the_registry_does_not_call_a_secret_is_kept_apart_all_the_same(
    run: Run, registry: Registry
) -> None:
    asked = {"type": "positional", "valueHint": "database"}
    registry.servers = [weather(packageArguments=[asked])]
    given = ("--env", "database=postgres://me:canary-pass99@db.example.com/x")
    assert run("add", "io.github.example/weather", *given, "--yes").code == 0
    assert "canary" not in user_config_file().read_text("utf-8")
    (config,) = load_servers(user_config_file()).servers
    assert config.args[1] == "postgres://me:canary-pass99@db.example.com/x"


def test_without_a_terminal_the_missing_values_are_listed(run: Run, registry: Registry) -> None:
    said = run("add", "io.github.example/weather", "--yes")
    assert said.code == 2
    assert "--env WEATHER_API_KEY=…  Key of the weather service. Secret." in said.err
    assert not user_config_file().exists()
    said = run("add", "io.github.example/weather", "--env", "WEATHER_KEY=canary-x", "--yes")
    assert said.code == 2
    assert "it asks for: WEATHER_API_KEY, WEATHER_UNITS" in said.err


def test_a_value_must_fit(run: Run, registry: Registry) -> None:
    given = ("--env", "WEATHER_API_KEY=canary", "--env", "WEATHER_UNITS=kelvin")
    said = run("add", "io.github.example/weather", *given, "--yes")
    assert (said.code, "one of celsius, fahrenheit" in said.err) == (2, True)


def test_without_a_terminal_nothing_is_added_before_it_was_agreed(
    run: Run, registry: Registry
) -> None:
    said = run("add", "io.github.example/weather", "--env", "WEATHER_API_KEY=canary-1")
    assert said.code == 1
    assert "`--yes` answers yes" in said.err
    assert not user_config_file().exists()


def test_a_variable_of_the_shell_is_passed_on_by_its_name(run: Run, registry: Registry) -> None:
    assert run("add", "io.github.example/weather", "--env", "WEATHER_API_KEY", "--yes").code == 0
    assert written("weather")["env"]["WEATHER_API_KEY"] == "${WEATHER_API_KEY}"


def test_at_a_terminal_values_are_asked_for_and_a_secret_is_not_shown(registry: Registry) -> None:
    said = at_a_terminal(
        *("add", "io.github.example/weather"),
        answers=[("WEATHER_API_KEY = ", "canary-typed"), ("[y/N]", "y")],
    )
    assert said.code == 0
    assert "canary" not in said.out
    (config,) = load_servers(user_config_file()).servers
    assert config.env["WEATHER_API_KEY"] == "canary-typed"


def test_at_a_terminal_a_no_changes_nothing(registry: Registry, home: Path) -> None:
    said = at_a_terminal(
        *("add", "io.github.example/weather"),
        answers=[("WEATHER_API_KEY = ", "canary-typed"), ("[y/N]", "n")],
    )
    assert said.code == 1
    assert "Nothing was changed." in said.out
    assert not user_config_file().exists()
    assert not list(home.rglob("secrets/*"))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("io.github.example/containers", ["token=t", "cluster=main", "KUBE_NAMESPACE=default"]),
        ("io.github.example/filesystem", ["source_path=/srv/data"]),
        ("io.github.example/dotnet-tool", []),
    ],
)
def test_the_docker_and_dnx_lines_are_the_golden_ones(
    run: Run, registry: Registry, name: str, given: list[str]
) -> None:
    options = [word for it in given for word in ("--env", it)]
    kind = "nuget" if "dotnet" in name else "oci"
    words = ("--package", kind, "--keep-secrets", "--yes")
    assert run("add", name, *options, *words).code == 0
    short = name.rpartition("/")[2]
    entry = written(short)
    entry["registry"]["url"] = "REGISTRY"
    assert entry == json.loads((GOLDEN / f"{short}.{kind}.json").read_bytes())


def test_a_bundle_says_what_it_needs(run: Run, registry: Registry) -> None:
    said = run("add", "io.github.example/image-tool", "--yes")
    assert said.code == 1
    assert said.err == (GOLDEN / "image-tool.mcpb.txt").read_text("utf-8")
    assert not user_config_file().exists()


def test_what_looks_like_a_variable_in_a_registry_reads_nothing_of_this_machine(
    run: Run, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INNER", "canary-of-the-shell")
    monkeypatch.setenv("w", "mine")
    hostile = weather(
        packageArguments=[argument("--x=${INNER}"), argument("${file:/etc/passwd}")],
        environmentVariables=[
            {"name": "A", "value": "${INNER}"},
            {"name": "B", "value": "${v}", "variables": {"v": {"isRequired": True}}},
            {"name": "C", "value": "${INNER}-{w}", "variables": {"w": {"isRequired": True}}},
        ],
    )
    registry.servers = [hostile]
    said = run("add", "io.github.example/weather", "--env", "v={INNER}", "--env", "w", "--yes")
    assert said.code == 0
    (config,) = load_servers(user_config_file()).servers
    assert config.args[1:] == ("--x=${INNER}", "${file:/etc/passwd}")
    assert dict(config.env) == {"A": "${INNER}", "B": "${INNER}", "C": "${INNER}-mine"}


@pytest.mark.parametrize(
    "fields",
    [
        {"identifier": "--index-url=https://evil.example.com"},
        {"identifier": "https://evil.example.com/x.tar.gz"},
        {"identifier": "x @ https://evil.example.com/x.whl"},
        {"identifier": "a b"},
        {"identifier": "x\x1b[2J"},
        {"version": "*"},
        {"version": "latest"},
        {"version": ""},
        {"version": "1.0 --with evil"},
        {"registryType": "npm", "identifier": "github:evil/x", "version": "1.0.0"},
        {"registryType": "npm", "identifier": "-c", "version": "1.0.0"},
        {"registryType": "npm", "identifier": "x", "version": "^1.0.0"},
        {"registryType": "npm", "identifier": "x", "version": "1.0.0 -c sh"},
        {"registryType": "oci", "identifier": "evil/x:latest", "version": ""},
        {"registryType": "oci", "identifier": "--privileged", "version": "1"},
        {"registryType": "cargo", "identifier": "x", "version": "1.0.0"},
        {"transport": {"type": "streamable-http", "url": "http://localhost:3000"}},
        {"runtimeArguments": [argument("--with=evil")]},
        {"runtimeArguments": [{"type": "named", "name": "--index-url", "value": "https://e"}]},
        {"runtimeArguments": [{"type": "named", "name": "--from", "value": "evil==1"}]},
        {"runtimeArguments": [{"type": "named", "name": "a b", "value": "c"}]},
        {"packageArguments": [argument("two\nlines")]},
        {"environmentVariables": [{"name": "LD_PRELOAD", "value": "/tmp/x.so"}]},
        {"environmentVariables": [{"name": "UV_INDEX_URL", "value": "https://evil"}]},
        {"environmentVariables": [{"name": "A=B", "value": "c"}]},
        {"environmentVariables": [{"name": "PATH", "default": "/tmp"}]},
    ],
    ids=str,
)
def test_what_would_change_what_is_run_is_refused(
    run: Run, registry: Registry, fields: dict[str, Any]
) -> None:
    registry.servers = [weather(**fields)]
    said = run("add", "io.github.example/weather", "--yes")
    assert said.code == 1
    assert said.err.count("error: ") == 1
    assert not user_config_file().exists()


def test_an_error_quotes_only_a_little_of_an_entry(run: Run, registry: Registry) -> None:
    odd = {"type": "x\nerror: forged " + "y" * 100_000}
    registry.servers = [weather(packageArguments=[odd])]
    said = run("add", "io.github.example/weather", "--yes")
    assert (said.code, said.err.count("\nerror:")) == (1, 0)
    assert "packageArguments[0].type" in said.err
    assert len(said.err) < 1000


@pytest.mark.parametrize(
    "runtime",
    [
        {"type": "named", "name": "--privileged"},
        {"type": "named", "name": "--network", "value": "host"},
        {"type": "named", "name": "-v", "value": "/:/host"},
        {"type": "named", "name": "--mount", "value": "type=bind,src=/etc,dst=/etc"},
        {"type": "named", "name": "-v", "value": "/var/run/docker.sock:/var/run/docker.sock"},
        {"type": "named", "name": "-e", "value": "DOCKER_HOST=tcp://evil"},
        {"type": "named", "name": "-v", "default": "/:/host"},
        {"type": "named", "name": "-v", "value": "{it}:/x", "variables": {"it": {"value": "/"}}},
        {"type": "named", "name": "-v", "value": "{it}:/x", "variables": {"it": {"default": "/"}}},
        {"type": "named", "name": "--mount", "value": "type=bind,src=a,SOURCE=/,dst=/x"},
        {"type": "named", "name": "--mount", "value": 'type=bind,src=a,"src=/",dst=/x'},
        {
            "type": "named",
            "name": "--mount",
            "value": "src=a,dst=/x,volume-opt=o=bind,volume-opt=device=/",
        },
        {"type": "positional", "value": "-v=/:/host"},
        {"type": "named", "name": "--entrypoint", "value": "sh"},
    ],
    ids=str,
)
def test_a_container_gets_no_rights_that_the_person_did_not_give(
    run: Run, registry: Registry, runtime: dict[str, Any]
) -> None:
    oci = {"registryType": "oci", "identifier": "ghcr.io/e/x:1", "version": ""}
    registry.servers = [weather(**oci, runtimeArguments=[runtime])]
    said = run("add", "io.github.example/weather", "--yes")
    assert said.code == 1
    assert not user_config_file().exists()


def test_a_folder_that_the_person_names_leads_to_no_other_folder(
    run: Run, registry: Registry
) -> None:
    oci = {"registryType": "oci", "identifier": "ghcr.io/e/x:1", "version": ""}
    for source, code in (("{it}/../..", 1), ("{it}/data", 0), ("cache", 0)):
        mount = {"type": "named", "name": "-v", "value": f"{source}:/x", "variables": {"it": {}}}
        registry.servers = [weather(**oci, runtimeArguments=[mount])]
        named = ("--env", "it=/srv/own") if "{" in source else ()
        said = run("add", "io.github.example/weather", *named, "--yes")
        assert said.code == code, said.err


@pytest.mark.parametrize(
    "remote",
    [
        {"type": "streamable-http", "url": "http://evil.example.com/mcp"},
        {"type": "streamable-http", "url": "https://a@evil.example.com/mcp"},
        {"type": "streamable-http", "url": "file:///etc/passwd"},
        {"type": "grpc", "url": "https://x.example.com"},
        {"type": "sse", "url": "http://localhost:{it}/", "variables": {"it": {"value": "1@evil"}}},
        {"type": "sse", "url": "http://{it}.localhost", "variables": {"it": {"default": "evil/"}}},
        {"type": "sse", "url": "https://x", "headers": [{"name": "Host", "value": "y"}]},
        {"type": "sse", "url": "https://x", "headers": [{"name": "A\r\nB", "value": "y"}]},
    ],
    ids=str,
)
def test_an_address_that_is_not_safe_is_refused(
    run: Run, registry: Registry, remote: dict[str, Any]
) -> None:
    registry.servers = [{**documents("search")[0], "remotes": [remote]}]
    said = run("add", "com.example.search/remote", "--yes")
    assert said.code == 1
    assert not user_config_file().exists()


def test_a_value_in_the_host_leads_to_no_other_host(run: Run, registry: Registry) -> None:
    variables = {"tenant": {"isRequired": True}}
    remote = {"type": "sse", "url": "https://{tenant}.example.com/x", "variables": variables}
    registry.servers = [{**documents("search")[0], "remotes": [remote]}]
    said = run("add", "com.example.search/remote", "--env", "tenant=evil.com/", "--yes")
    assert (said.code, "part of a host" in said.err) == (1, True)
    assert run("add", "com.example.search/remote", "--env", "tenant=me", "--yes").code == 0
    assert written("remote")["url"] == "https://me.example.com/x"


def test_a_value_is_never_read_as_an_option(run: Run, registry: Registry) -> None:
    asked = [
        {"type": "positional", "valueHint": "place"},
        {"type": "named", "name": "--unit", "isRequired": True},
        {"type": "named", "name": "--fast", "format": "boolean"},
        {"type": "named", "name": "--slow", "format": "boolean"},
    ]
    registry.servers = [weather(packageArguments=asked)]
    name, units = "io.github.example/weather", ("--env", "unit=-c")
    said = run("add", name, *units, "--env", "place=-rf", "--yes")
    assert (said.code, "begins with `-`" in said.err) == (1, True)
    flags = ("--env", "fast=true", "--env", "slow=false")
    assert run("add", name, *units, "--env", "place=Oslo", *flags, "--yes").code == 0
    spec = "weather-mcp-server==0.5.0"
    assert written("weather")["args"] == [spec, "Oslo", "--unit=-c", "--fast"]


def test_a_deleted_server_is_refused_and_a_deprecated_one_is_said(
    run: Run, registry: Registry
) -> None:
    name = "io.github.example/weather"
    registry.servers = [weather()]
    registry.status = {(name, "0.5.0"): "deleted"}
    said = run("add", name, "--yes")
    assert (said.code, "has deleted" in said.err) == (1, True)
    registry.status = {(name, "0.5.0"): "deprecated"}
    said = run("add", name, "--yes")
    assert (said.code, "deprecated" in said.err) == (0, True)


def test_a_version_is_chosen_and_an_unknown_one_is_not_found(run: Run, registry: Registry) -> None:
    older = weather(version="0.4.0")
    registry.servers = [{**older, "version": "0.4.0"}, weather()]
    name = "io.github.example/weather"
    assert run("add", name, "--version", "0.4.0", "--yes").code == 0
    assert written("weather")["args"] == ["weather-mcp-server==0.4.0"]
    said = run("add", name, "--version", "9.0.0", "--yes")
    assert (said.code, "does not have version '9.0.0'" in said.err) == (3, True)
    assert run("add", "io.github.example/absent", "--yes").code == 3


def test_a_server_is_added_from_the_cache(run: Run, registry: Registry) -> None:
    registry.servers = [weather()]
    assert run("find", "weather").code == 0
    registry.answer = lambda _: (503, {}, b"")
    said = run("add", "io.github.example/weather", "--yes")
    assert (said.code, "This is from the cache" in said.err) == (0, True)
    assert written("weather")["command"] == "uvx"


def test_a_name_alone_that_is_none_of_a_registry_says_what_to_write(run: Run) -> None:
    said = run("add", "weather")
    assert (said.code, "such as io.github.owner/server" in said.err) == (2, True)
    said = run("add", "weather", "https://example.com/mcp", "--version", "1")
    assert said.code == 2
    said = run("add", "io.github.example/weather", "--header", "A=b")
    assert said.code == 2


def test_a_server_of_the_same_name_is_named_before_it_is_replaced(
    run: Run, registry: Registry
) -> None:
    registry.servers = [weather()]
    assert run("add", "weather", "--", "true").code == 0
    said = run("add", "io.github.example/weather", "--yes")
    assert (said.code, "already has a server 'weather'" in said.err) == (0, True)
    assert written("weather")["command"] == "uvx"


def test_nothing_is_run(run: Run, registry: Registry, tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("uvx", "npx", "docker", "dnx"):
        path = folder / program
        path.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", "utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    registry.servers = [weather()]
    assert run("add", "io.github.example/weather", "--yes").code == 0
    assert not (tmp_path / "ran").exists()
    assert main(["list"]) == 0
