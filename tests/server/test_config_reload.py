"""Files that are read again while a gateway runs: the first one, and those of tenants."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from pegboard.hub import Hub
from pegboard.server import ServeOptions, Serving, open_serving
from pegboard.server.process.config_reload import ConfigReload
from tests.server.processes import write
from tests.server.test_assembly import call


class Listening(logging.Handler):
    """Tells when something is logged."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.heard = anyio.Event()
        self._words = words

    def emit(self, record: logging.LogRecord) -> None:
        if self._words in record.getMessage():
            self.heard.set()


@asynccontextmanager
async def hearing(words: str) -> AsyncGenerator[None]:
    """Wait at the end until something was logged."""
    listening = Listening(words)
    logger = logging.getLogger("pegboard.server")
    logger.addHandler(listening)
    try:
        yield
        with anyio.fail_after(10):
            await listening.heard.wait()
    finally:
        logger.removeHandler(listening)


def named(*servers: str) -> dict[str, Any]:
    """Return a configuration of servers that are not started."""
    return {"mcpServers": {it: {"command": "nothing", "disabled": True} for it in servers}}


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("pegboard.server.process.config_reload.LOOK_EVERY", 0.01)
    caplog.set_level(logging.INFO, "pegboard.server")


@asynccontextmanager
async def following(folder: Path) -> AsyncGenerator[tuple[Serving, ConfigReload]]:
    """Serve a tenant with a file, and one whose file is not there."""
    path = folder / "mcp.json"
    tenants = {"team": "team.json", "late": "late.json"}
    write(path, {**named("main"), "gateway": {"tenants": tenants}})
    options = ServeOptions(config=str(path))
    async with open_serving(options) as serving, anyio.create_task_group() as tasks:
        reloading = ConfigReload(serving, options.config)
        await anyio.to_thread.run_sync(reloading.note)
        await serving.startup.run()
        tasks.start_soon(reloading.run)
        yield serving, reloading
        tasks.cancel_scope.cancel()


async def opened(serving: Serving, tenant: str) -> Hub:
    await call(serving, tenant, "list_tools_by_category", category="all")
    hub = await serving.gateway.hub_of(tenant)
    assert hub is not None
    return hub


async def test_the_file_of_a_tenant_is_followed_like_the_first(tmp_path: Path) -> None:
    team = tmp_path / "team.json"
    write(team, named("one"))
    async with following(tmp_path) as (serving, _):
        hub = await opened(serving, "team")
        assert list(hub.servers) == ["one"]
        async with hearing("The configuration of tenant 'team' was read again: 2 servers."):
            write(team, named("one", "two"))
        assert list(hub.servers) == ["one", "two"]
        async with hearing("The configuration of tenant 'team' stays as it is: "):
            await anyio.Path(team).write_text("{", encoding="utf-8")
        assert list(hub.servers) == ["one", "two"]
        assert list(serving.hub.servers) == ["main"]


async def test_whoever_asks_has_all_files_read_again(tmp_path: Path) -> None:
    write(tmp_path / "team.json", named("one"))
    async with following(tmp_path) as (serving, reloading):
        await opened(serving, "team")
        async with (
            hearing("The configuration was read again: 1 server."),
            hearing("The configuration of tenant 'team' was read again: 1 server."),
        ):
            reloading.ask()


async def test_a_tenant_that_is_not_open_reads_its_file_when_it_is(tmp_path: Path) -> None:
    async with following(tmp_path) as (serving, _):
        assert await serving.gateway.hub_of("late") is None
        write(tmp_path / "late.json", named("one"))
        assert list((await opened(serving, "late")).servers) == ["one"]
        async with hearing("The configuration of tenant 'late' was read again: 2 servers."):
            write(tmp_path / "late.json", named("one", "two"))


async def test_the_section_of_a_file_that_came_later_is_not_taken_for_that_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ".pegboard" / "mcp.json"
    file.parent.mkdir()
    write(file, named("one"))
    async with open_serving(ServeOptions()) as serving, anyio.create_task_group() as tasks:
        reloading = ConfigReload(serving, None)
        await anyio.to_thread.run_sync(reloading.note)
        await serving.startup.run()
        tasks.start_soon(reloading.run)
        write(tmp_path / "mcp.json", {**named(), "gateway": {"page_size": 7}})
        for words in ("one", "two"):
            async with hearing("The configuration was read again: 2 servers."):
                write(file, named("one", f"{words} more"))
        tasks.cancel_scope.cancel()
    assert "The section `gateway` has changed" not in caplog.text
