"""Hub, gateway and audit put together, as one process serves them."""

import json
import os
import re
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from pegboard.errors import ConfigError
from pegboard.gateway import Client, ClientRequest, Face, RpcError
from pegboard.model.principal import ALL_SCOPES, OPERATOR, Principal
from pegboard.observe import Audit
from pegboard.server import ServeOptions, Serving, open_serving
from pegboard.storage import open_store
from tests.upstream.hosted import listening
from tests.upstream.late_servers import STUCK, light
from tests.upstream.test_changed_definitions import Changing, digest_of, server_with, tool


class Deaf:
    """A client that hears nothing."""

    async def notify(self, method: str, params: Any) -> None:
        pass

    can_ask = False

    async def ask(self, method: str, params: Any) -> dict[str, Any]:
        raise RpcError(-32601, "No gateway responds.")


def answer() -> int:
    """Tell the answer."""
    return 42


async def call(serving: Serving, tenant: str, tool: str, **arguments: Any) -> Any:
    principal = Principal(tenant=tenant, subject="ann", scopes=ALL_SCOPES)
    client = Client(principal=principal, era="modern", version="2026-07-28", face=Face())
    params = {"name": tool, "arguments": arguments}
    exchange = ClientRequest(method="tools/call", params=params, client=client, channel=Deaf())
    return await serving.pipeline.respond(exchange)


async def test_tenants_register_side_by_side_and_see_nothing_of_each_other(tmp_path: Path) -> None:
    options = ServeOptions(config={"mcpServers": {}}, storage=str(tmp_path / "a.db"))
    async with open_serving(options) as serving:
        await serving.startup.run()
        given = {"name": "sow_seeds", "description": "Sow seeds in a garden."}
        await call(serving, "garden", "register_tool", **given)
        here = await call(serving, "garden", "search_tools", query="sow seeds")
        there = await call(serving, "kitchen", "search_tools", query="sow seeds")
        assert "sow_seeds" in json.dumps(here)
        assert "sow_seeds" not in json.dumps(there)


async def test_without_a_store_there_are_no_other_tenants() -> None:
    async with open_serving(ServeOptions(config={"mcpServers": {}})) as serving:
        await serving.startup.run()
        with pytest.raises(RpcError, match="tenant"):
            await call(serving, "garden", "search_tools", query="x")


async def test_calls_are_in_the_audit_with_who_made_them(tmp_path: Path) -> None:
    path, lines = tmp_path / "a.db", tmp_path / "audit.jsonl"
    options = ServeOptions(config={"mcpServers": {}}, storage=str(path), audit_file=str(lines))
    async with open_serving(options) as serving:
        await serving.startup.run()
        serving.hub.registry.register(answer)
        await call(serving, "default", "call_tool", name="answer")

    def read() -> list[Any]:
        with open_store(path, tenant=OPERATOR) as store:
            return Audit(store).records()

    (record,) = [it for it in await anyio.to_thread.run_sync(read) if it.target == "answer"]
    assert (record.subject, record.outcome) == ("ann", "done")
    assert '"answer"' in await anyio.Path(lines).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["absent/audit.jsonl", "."])
async def test_an_audit_file_that_cannot_be_written_is_named_at_the_start(
    tmp_path: Path, name: str
) -> None:
    options = ServeOptions(config={"mcpServers": {}}, audit_file=str(tmp_path / name))
    with pytest.raises(ConfigError, match="`--audit`"):
        async with open_serving(options):
            pass


async def test_the_audit_goes_to_no_pipe_nor_device(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for name in (str(path), os.devnull):
        options = ServeOptions(config={"mcpServers": {}}, audit_file=name)
        with anyio.fail_after(5), pytest.raises(ConfigError, match="not a regular file"):
            async with open_serving(options):
                pass


async def test_calls_are_counted_by_servers_that_there_are() -> None:
    options = ServeOptions(config={"mcpServers": {"light": light()}})
    async with open_serving(options) as serving:
        with anyio.fail_after(20):
            await serving.startup.run()
            await call(serving, "default", "mcp_light_echo", text="hi")
            for number in range(3):
                given = {"name": f"sow_{number}", "description": "Sow.", "mcp_server": f"x{number}"}
                await call(serving, "default", "register_tool", **given)
                await call(serving, "default", given["name"])
            page = (await serving.pipeline.metrics.page()).decode()
    counted = set(re.findall(r'pegboard_calls_total\{.*server="(.*?)"', page))
    assert counted == {"light", ""}


async def test_requests_wait_for_servers_that_are_starting() -> None:
    async with open_serving(ServeOptions(config={"mcpServers": {}})) as serving:
        assert not serving.pipeline.is_ready
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, serving, "default", "search_tools")
            await anyio.lowlevel.checkpoint()
            await serving.startup.run()
        assert serving.pipeline.is_ready


async def test_a_server_that_hangs_keeps_nothing_from_being_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pegboard.server.startup.PATIENCE", 0.2)
    monkeypatch.setattr("pegboard.gateway.catalog.startup_wait.PATIENCE", 0.2)
    config = {"mcpServers": {"stuck": STUCK, "light": light()}}
    async with open_serving(ServeOptions(config=config)) as serving:
        with anyio.fail_after(20):
            await serving.startup.run()
            assert serving.pipeline.is_ready
            assert serving.hub.starting == ["stuck"]
            arguments = {"name": "mcp_light_echo", "arguments": {"text": "hi"}}
            called = await call(serving, "default", "call_tool", **arguments)
            assert called["content"][0]["text"] == "hi"


async def test_a_section_that_cannot_be_used_opens_nothing() -> None:
    with pytest.raises(ConfigError):
        async with open_serving(ServeOptions(config={"gateway": {"nonsense": 1}})):
            pass


async def test_a_hub_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("nonsense", encoding="utf-8")
    async with open_serving(ServeOptions(config={"mcpServers": {}})) as serving:
        broken = serving.startup.__class__(serving.hub.__class__(str(path)))
        await broken.run()
        assert not broken.is_done
        with pytest.raises(ConfigError):
            await broken.finished()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
async def test_a_server_that_is_the_gateway_itself_is_left_out_with_a_warning(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    urls = {"own": "http://localhost:9/mcp", "self": "http://127.0.0.1:9/mcp-full"}
    others = {"port": "http://127.0.0.1:8/mcp", "far": "http://example.test:9/mcp"}
    entries = {name: {"url": it, "lazy": True} for name, it in {**urls, **others}.items()}
    options = ServeOptions(config={"mcpServers": entries}, host=host)
    async with open_serving(options, port=9) as serving:
        await serving.startup.run()
        assert set(serving.hub.servers) == set(others)
        await serving.hub.reload()
        assert set(serving.hub.servers) == set(others)
    assert caplog.text.count("is this gateway itself and is left out") == 4


async def test_a_definition_that_changed_between_two_runs_is_in_the_audit(tmp_path: Path) -> None:
    first, second = tool(), tool(description="Now it is another.")
    records: list[Any] = []
    async with listening(server_with(first)) as server:
        assert isinstance(server, Changing)
        entry = {"url": server.url, "protocol": "2026-07-28"}
        options = ServeOptions(config={"mcpServers": {"it": entry}}, storage=str(tmp_path / "a.db"))
        for definition in (first, second):
            server.definitions = [definition]
            async with open_serving(options) as serving:
                await serving.startup.run()
                with anyio.fail_after(20):
                    await serving.hub.server("it").start()
                records = await anyio.to_thread.run_sync(serving.audit.records)
    [record] = [it for it in records if it.action == "definition_changed"]
    assert record.reason == f"sha256:{digest_of(first)} -> sha256:{digest_of(second)}"
    assert (record.target, record.source, record.tenant) == ("go", "server it", "default")
