"""`pegboard outdated` and `pegboard upgrade`: versions, differences, questions, undoing."""

import json
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pegboard.directory.definition_changes import ToolChange, tool_changes
from pegboard.directory.versions import is_newer
from tests.cli.handy import Home, Terminal
from tests.directory.registry_server import Registry, documents, serving

SERVER = Path(__file__).with_name("versioned_server.py")
NAME = "io.github.example/weather"


def weather(version: str, **fields: Any) -> dict[str, Any]:
    document = documents("weather")[0]
    (package,) = document["packages"]
    return {**document, "version": version, "packages": [{**package, "version": version, **fields}]}


class Machine(Home):
    """A home on whose PATH `uvx` runs the versioned server, and notes each start."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, entries={})
        self.configure({})
        self.noted_starts = folder / "starts.txt"
        (folder / "bin").mkdir()
        script = folder / "bin" / "uvx"
        lines = ["#!/bin/sh", f"export STARTS='{self.noted_starts}'"]
        lines.append(f"exec '{sys.executable}' -S '{SERVER}' \"$@\"")
        script.write_text("\n".join(lines), "utf-8")
        script.chmod(0o755)
        self.registry = ""

    @property
    def environ(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        return {**super().environ, "PATH": path, "PEGBOARD_REGISTRY": self.registry}

    @property
    def entries(self) -> dict[str, Any]:
        return json.loads((self.folder / "mcp.json").read_bytes())["mcpServers"]

    @property
    def started(self) -> list[str]:
        return (
            self.noted_starts.read_text("utf-8").splitlines() if self.noted_starts.exists() else []
        )


@pytest.fixture
def registry() -> Generator[Registry]:
    with serving(Registry([weather("0.5.0")])) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, registry: Registry) -> Machine:
    made = Machine(tmp_path)
    made.registry = registry.url
    said = made.main("add", NAME, "--env", "WEATHER_API_KEY=key-1234", "--yes")
    assert said.returncode == 0, said.stderr
    return made


def test_outdated_lists_newer_versions(home: Machine, registry: Registry) -> None:
    said = home.main("outdated")
    assert (said.returncode, said.stdout) == (0, "")
    assert "all have the latest version" in said.stderr
    registry.servers.append(weather("0.6.0"))
    said = home.main("outdated")
    assert said.returncode == 0
    assert said.stdout.splitlines()[1].split() == ["weather", "0.5.0", "0.6.0", NAME]
    registry.answer = lambda _: (503, {}, b"")
    (row,) = json.loads(home.main("outdated", "--json").stdout)
    assert (row["latest"], row["outdated"]) == ("0.6.0", True)
    assert "From the cache" in row["problem"]


def test_outdated_says_which_registry_cannot_be_asked(home: Machine, registry: Registry) -> None:
    other = dict(home.entries["weather"])
    other["registry"] = {**other["registry"], "url": "http://127.0.0.1:9"}
    home.configure({"weather": home.entries["weather"], "other": other, "own": {"command": "x"}})
    said = home.main("outdated")
    assert said.returncode == 1
    assert "other: The registry http://127.0.0.1:9 cannot be reached" in said.stderr
    assert "own" not in said.stderr


def test_an_upgrade_shows_the_differences_and_is_undone(home: Machine, registry: Registry) -> None:
    content = json.loads((home.folder / "mcp.json").read_bytes())
    content["mcpServers"]["weather"] |= {"deny": ["history"], "timeouts": {"call": 9}}
    content["mcpServers"]["weather"]["env"]["MINE"] = "${HOME}"
    (home.folder / "mcp.json").write_text(json.dumps(content), "utf-8")
    before = home.entries["weather"]
    registry.servers.append(weather("0.6.0"))
    said = home.run("upgrade", "weather", "--yes")
    assert said.returncode == 0, said.stderr
    assert "Runs now:     uvx weather-mcp-server==0.5.0" in said.stderr
    assert "Would run:    uvx weather-mcp-server==0.6.0" in said.stderr
    shown = [it.strip() for it in said.stderr.splitlines() if it.startswith("    ")]
    assert shown == [
        r"+ alerts\u001b[2J",
        "~ forecast: description; argument days added (required)",
        "- history",
    ]
    assert sorted(home.started) == ["0.5.0 key-1234", "0.6.0 key-1234"]
    entry = home.entries["weather"]
    assert entry["args"] == ["weather-mcp-server==0.6.0"]
    assert entry["registry"]["version"] == "0.6.0"
    kept = ("env", "deny", "timeouts", "command")
    assert {it: entry[it] for it in kept} == {it: before[it] for it in kept}
    said = home.main("upgrade", "weather", "--undo", "--yes")
    assert said.returncode == 0, said.stderr
    assert home.entries["weather"] == before
    said = home.main("upgrade", "weather", "--undo", "--yes")
    assert (said.returncode, "No upgrade of 'weather' is known" in said.stderr) == (1, True)


def test_nothing_is_started_or_written_before_it_was_agreed(
    home: Machine, registry: Registry
) -> None:
    registry.servers.append(weather("0.6.0"))
    before = home.entries
    said = home.main("upgrade", "weather")
    assert (said.returncode, "`--yes` answers yes" in said.stderr) == (1, True)
    with Terminal(home, ["upgrade", "weather"]) as terminal:
        terminal.until(r"compare their tools\? \[y/N\]")
        terminal.type("n")
        terminal.until(r"version 0.6.0\? \[y/N\]")
        terminal.type("n")
        assert terminal.end() == 1
    assert (home.entries, home.started) == (before, [])
    with Terminal(home, ["upgrade", "weather"]) as terminal:
        terminal.until(r"compare their tools\? \[y/N\]")
        terminal.type("y")
        shown = terminal.until(r"version 0.6.0\? \[y/N\]")
        assert "- history" in shown
        assert "\x1b[2J" not in shown
        terminal.type("y")
        assert terminal.end() == 0
    assert home.entries["weather"]["args"] == ["weather-mcp-server==0.6.0"]


def test_a_version_that_does_not_start_is_not_written(home: Machine, registry: Registry) -> None:
    registry.servers.append(weather("0.7.0"))
    before = home.entries
    said = home.run("upgrade", "weather", "--yes")
    assert said.returncode == 1
    assert "It does not work." in said.stderr
    assert home.entries == before
    assert home.main("upgrade", "weather", "--yes", "--no-start").returncode == 0
    assert home.entries["weather"]["registry"]["version"] == "0.7.0"


def test_what_the_new_version_needs_is_asked_for(home: Machine, registry: Registry) -> None:
    needed = [
        {"name": "WEATHER_API_KEY", "isRequired": True, "isSecret": True},
        {"name": "WEATHER_REGION", "isRequired": True, "description": "Region."},
    ]
    registry.servers.append(weather("0.6.0", environmentVariables=needed))
    said = home.main("upgrade", "weather", "--yes", "--no-start")
    assert (said.returncode, "--env WEATHER_REGION=…" in said.stderr) == (2, True)
    key = home.entries["weather"]["env"]["WEATHER_API_KEY"]
    given = ("--env", "WEATHER_REGION=north")
    assert home.main("upgrade", "weather", *given, "--yes", "--no-start").returncode == 0
    # A variable that the new version does not have any more goes.
    assert home.entries["weather"]["env"] == {"WEATHER_API_KEY": key, "WEATHER_REGION": "north"}


def test_arguments_that_the_person_changed_stay(home: Machine, registry: Registry) -> None:
    entry = home.entries["weather"]
    entry["args"] = ["--python", "3.12", *entry["args"], "--mine"]
    home.configure({"weather": entry})
    registry.servers.append(weather("0.6.0"))
    assert home.main("upgrade", "weather", "--yes", "--no-start").returncode == 0
    args = ["--python", "3.12", "weather-mcp-server==0.6.0", "--mine"]
    assert home.entries["weather"]["args"] == args


def test_the_values_of_arguments_are_kept(tmp_path: Path, registry: Registry) -> None:
    asked = [{"type": "positional", "valueHint": "place", "isRequired": True}]
    registry.servers = [weather("0.5.0", packageArguments=asked, environmentVariables=[])]
    home = Machine(tmp_path)
    home.registry = registry.url
    assert home.main("add", NAME, "--env", "place=Oslo", "--yes").returncode == 0
    more = [*asked, {"type": "named", "name": "--unit", "default": "m"}]
    registry.servers.append(weather("0.6.0", packageArguments=more, environmentVariables=[]))
    assert home.main("upgrade", "weather", "--yes", "--no-start").returncode == 0
    entry = home.entries["weather"]
    assert entry["args"] == ["weather-mcp-server==0.6.0", "Oslo", "--unit", "m"]


def test_an_upgrade_is_not_undone_once_the_entry_was_changed(
    home: Machine, registry: Registry
) -> None:
    registry.servers.append(weather("0.6.0"))
    assert home.main("upgrade", "weather", "--yes", "--no-start").returncode == 0
    home.configure({"weather": {**home.entries["weather"], "lazy": True}})
    said = home.main("upgrade", "weather", "--undo", "--yes")
    assert (said.returncode, "was changed since its upgrade" in said.stderr) == (1, True)


def test_a_server_of_no_registry_and_an_absent_one_are_said(home: Machine) -> None:
    home.configure({"own": {"command": "x"}})
    said = home.main("upgrade", "own")
    assert (said.returncode, "was not added from an MCP registry" in said.stderr) == (1, True)
    assert home.main("upgrade", "absent").returncode == 3


def test_nothing_is_done_where_there_is_nothing_newer(home: Machine, registry: Registry) -> None:
    said = home.main("upgrade", "weather", "--yes")
    assert (said.returncode, "has version 0.5.0" in said.stdout) == (0, True)
    registry.servers.append(weather("0.4.9"))
    assert home.main("upgrade", "weather", "--yes").returncode == 0
    assert home.entries["weather"]["registry"]["version"] == "0.5.0"
    # One step back is a step, too, if it is asked for.
    said = home.main("upgrade", "weather", "--version", "0.4.9", "--yes", "--no-start")
    assert home.entries["weather"]["registry"]["version"] == "0.4.9"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        *(("1.2.3", "1.2.4"), ("1.9.0", "1.10.0"), ("1.0.0-rc.1", "1.0.0"), ("1.0a1", "1.0")),
        *(("1.0.dev1", "1.0a1"), ("1.0", "1.0.post1"), ("1.0.0-rc.2", "1.0.0-rc.10"), ("v1", "2")),
    ],
)
def test_versions_are_ordered_as_npm_and_pypi_do(older: str, newer: str) -> None:
    assert is_newer(newer, older)
    assert not is_newer(older, newer)
    assert not is_newer(newer, newer)


def test_the_same_version_in_another_spelling_is_not_newer() -> None:
    assert not is_newer("1.0.0", "1.0")
    assert not is_newer("1.0+build", "1.0")
    assert is_newer("spring", "autumn")


def test_differences_of_schemas_are_named() -> None:
    def tool(properties: Mapping[str, Any], *required: str, **more: Any) -> dict[str, Any]:
        schema = {"type": "object", "properties": properties, "required": list(required)}
        return {"name": "it", "inputSchema": schema, **more}

    one, other = {"type": "string"}, {"type": "integer"}
    before = [tool({"a": one, "b": one, "c": one, "d": one}, "c")]
    after = [tool({"a": other, "b": one, "c": one, "e": one}, "b", annotations={"x": 1}, y=2)]
    parts = (
        *("annotations", "argument a changed", "argument b is required now"),
        *("argument c is optional now", "argument d removed", "argument e added", "y"),
    )
    assert tool_changes(before, after) == [ToolChange(name="it", kind="changed", parts=parts)]
    assert tool_changes(before, before) == []
    assert tool_changes([], before) == [ToolChange(name="it", kind="added")]
