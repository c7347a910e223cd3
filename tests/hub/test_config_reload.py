"""What a hub does with a file that is not what it was."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from pegboard import ConfigError, Hub, ServerState
from pegboard.gateway import Gateway
from pegboard.upstream import NoCatalogCache, UpstreamServer
from tests.gateway.clients import Caller, text_of
from tests.upstream.late_servers import STUCK, light


def write(path: Path, **servers: Any) -> None:
    path.write_text(json.dumps({"mcpServers": servers}), "utf-8")


def hub_with(path: Path, *names: str) -> Hub:
    path.write_text(json.dumps({"mcpServers": dict.fromkeys(names, light())}), "utf-8")
    return Hub.open(path, catalog_cache=NoCatalogCache())


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
    async with Hub.open(catalog_cache=NoCatalogCache()) as hub:
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


async def test_the_tools_of_a_changed_server_stay_until_the_new_one_is_up(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    async with hub_with(file, "a") as hub:
        before, tools = await pid_of(hub, "a"), list(hub.registry)
        write(file, a=STUCK)
        await hub.reload(wait=False)
        assert list(hub.registry) == tools
        assert hub.starting == ["a"]
        write(file, a={**light(), "deny": ["echo"]})
        await hub.reload(wait=False)
        assert "mcp_a_echo" not in hub.registry
        assert await pid_of(hub, "a") != before
        with anyio.fail_after(10):
            await hub.started(["a"])
        assert hub.starting == []


async def test_the_tools_of_a_changed_server_go_when_the_new_one_fails(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    async with hub_with(file, "a") as hub:
        write(file, a={"command": "no-such-command-anywhere"})
        await hub.reload(wait=False)
        with anyio.fail_after(10):
            await hub.started(["a"])
        assert list(hub.registry) == []
        write(file, a={**light(), "enabled": False})
        await hub.reload()
        assert list(hub.registry) == []


async def test_a_call_that_waits_for_a_server_that_is_replaced_waits_for_the_new_one(
    tmp_path: Path,
) -> None:
    file = tmp_path / "mcp.json"
    said: list[str] = []
    async with hub_with(file, "a") as hub, Gateway(hub) as gateway:

        async def call(name: str) -> None:
            arguments = {"text": "hi"}
            result = await Caller(gateway).call("call_tool", name=name, arguments=arguments)
            said.append(text_of(result))

        write(file, a=STUCK, b=STUCK)
        await hub.reload(wait=False)
        async with anyio.create_task_group() as group:
            group.start_soon(call, "mcp_a_echo")
            group.start_soon(call, "mcp_b_echo")
            await anyio.wait_all_tasks_blocked()
            write(file, a=light(), b=light())
            with anyio.fail_after(20):
                await hub.reload(wait=False)
    assert said == ["hi", "hi"]


async def test_a_server_that_does_not_end_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, may_end = tmp_path / "mcp.json", anyio.Event()
    leave = UpstreamServer.leave

    async def leave_late(self: UpstreamServer, reason: str) -> None:
        await may_end.wait()
        await leave(self, reason)

    async with hub_with(file, "a") as hub:
        monkeypatch.setattr(UpstreamServer, "leave", leave_late)
        with anyio.fail_after(20):
            write(file, b=light())
            await hub.reload(wait=False)
            await hub.started()
            assert await pid_of(hub, "b")
            assert list(hub.servers) == ["b"]
        may_end.set()


async def test_a_file_that_would_have_gone_before_it_stops_no_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ".pegboard" / "mcp.json"
    file.parent.mkdir()
    write(file, a={**light(), "enabled": False})
    async with Hub.open(catalog_cache=NoCatalogCache()) as hub:
        origin = hub.loaded.origin
        write(tmp_path / "mcp.json")
        write(file, a={**light(), "enabled": False}, b={**light(), "enabled": False})
        await hub.reload()
        assert list(hub.servers) == ["a", "b"]
        assert (hub.loaded.path, hub.loaded.origin) == (file, origin)
