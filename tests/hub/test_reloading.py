"""What a hub does with a file that is not what it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from pegboard import ConfigError, Hub, ServerState
from pegboard.upstream import NoMemory
from tests.upstream.late_servers import light


def hub_with(path: Path, *names: str) -> Hub:
    path.write_text(json.dumps({"mcpServers": dict.fromkeys(names, light())}), "utf-8")
    return Hub.open(path, memory=NoMemory())


async def pid_of(hub: Hub, server: str) -> str:
    return (await hub.call(f"mcp_{server}_pid")).text()


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "5", "[]", "null", "{}", '{"mcpServers": 5}', '{"mcpServers": []}'),
        *('{"mcpServers": null}', '{"mcpServer": {"a": {"command": "x"}}}', '{"gateway": {}}'),
    ],
)
async def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: Path, content: str) -> None:
    file = tmp_path / "mcp.json"
    async with hub_with(file, "a") as hub:
        before, loaded = await pid_of(hub, "a"), hub.loaded
        file.write_text(content, "utf-8")
        with pytest.raises(ConfigError) as caught:
            await hub.reload()
        assert str(file) in str(caught.value)
        assert hub.loaded is loaded
        assert await pid_of(hub, "a") == before


async def test_a_file_that_is_gone_changes_nothing_although_another_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file, other = tmp_path / "mcp.json", tmp_path / ".pegboard" / "mcp.json"
    other.parent.mkdir()
    other.write_text('{"mcpServers": {}}', "utf-8")
    file.write_text(json.dumps({"mcpServers": {"a": light()}}), "utf-8")
    async with Hub.open(memory=NoMemory()) as hub:
        file.unlink()
        with pytest.raises(ConfigError, match="gone"):
            await hub.reload()
        assert await pid_of(hub, "a")


async def test_no_servers_are_what_a_file_has_to_say(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    async with hub_with(file, "a") as hub:
        file.write_text('{"mcpServers": {}}', "utf-8")
        await hub.reload()
        assert hub.servers == {}


@pytest.mark.parametrize("entry", [5, [], {"command": 5}, {"command": "${NOT_DEFINED_ANYWHERE}"}])
async def test_a_bad_entry_keeps_its_server_and_the_rest_is_done(
    tmp_path: Path, entry: Any, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "mcp.json"
    async with hub_with(file, "a", "b") as hub:
        before = await pid_of(hub, "a")
        for _ in range(2):
            servers = {"a": entry, "c": light(), "d": entry}
            file.write_text(json.dumps({"mcpServers": servers}), "utf-8")
            await hub.reload()
            assert set(hub.servers) == {"a", "c"}
            assert await pid_of(hub, "a") == before
            assert hub.servers["c"].state == ServerState.READY
        assert "config_kept: server 'a' stays as it was" in caplog.text


async def test_a_hub_that_had_no_servers_stays_without_them_quietly(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    async with hub_with(file) as hub:
        file.write_text("{}", "utf-8")
        await hub.reload()
        assert hub.servers == {}
