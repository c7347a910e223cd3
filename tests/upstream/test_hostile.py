"""What hostile users and servers did to us once, and what became of it."""

import asyncio  # noqa: TID251 - event loops that end or stop are the matter
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
import pytest
from mcp import MCPError

from pegboard import (
    ConnectionLostError,
    NotConnectedError,
    ProtocolError,
    Registry,
    Retry,
    ServerAuthenticationError,
    ServerConfig,
    ServerState,
    ToolTimeoutError,
)
from pegboard.upstream import FileCatalogCache
from pegboard.upstream.messages.jsonrpc import read_message
from tests.upstream.board_servers import Bench, hub_of, limits, memory, script
from tests.upstream.http_servers import serving
from tests.upstream.processes import alive, all_ended, new_marker

RAW = """
import json, sys, time
replies = json.loads(sys.argv[1])
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method = request["method"]
    if method == "initialize":
        reply = {"result": {"protocolVersion": request["params"]["protocolVersion"],
                 "capabilities": {"tools": {"listChanged": True}},
                 "serverInfo": {"name": "raw", "version": "1"}}}
    else:
        reply = replies.get(method) or {"error": {"code": -32601, "message": "unknown"}}
    if isinstance(reply, str):
        sys.stdout.write(reply.replace("ID", str(request["id"])) + "\\n")
    else:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}) + "\\n")
    if method == "tools/list" and "notify" in replies:
        sys.stdout.write(json.dumps(replies["notify"]) + "\\n")
    sys.stdout.flush()
"""
TOOLS = {"result": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}}


def raw(replies: Mapping[str, Any], **fields: Any) -> ServerConfig:
    code = RAW.replace("\\\\n", "\\n")
    args = ("-S", "-E", "-c", code, json.dumps(replies))
    return ServerConfig(
        name="raw",
        transport="stdio",
        command=sys.executable,
        args=args,
        protocol="legacy",
        **fields,
    )


async def test_a_stateless_call_gives_the_same_errors_and_is_not_repeated() -> None:
    calls: list[str] = []

    def refuse(_: dict[str, Any]) -> str:
        calls.append("once")
        raise MCPError(-32099, "out of paper")

    registry = Registry(retry=Retry(3, initial=0))
    async with serving(Bench(go=refuse).server.streamable_http_app()) as origin:
        config = ServerConfig(
            name="web",
            transport="streamable_http",
            url=f"{origin}/mcp",
            stateless=True,
            protocol="legacy",
        )
        async with hub_of(config, registry=registry) as hub:
            with pytest.raises(ProtocolError, match="out of paper"):
                await hub.call("mcp_web_go")
    assert calls == ["once"]


async def test_a_server_that_was_removed_does_not_come_back(tmp_path: Path) -> None:
    bench = Bench(go=lambda _: "1")
    remembered = FileCatalogCache(tmp_path)
    config = memory("calc", bench)
    async with hub_of(config, catalog_cache=remembered):
        pass
    async with hub_of(catalog_cache=remembered) as hub:
        supervisor = hub._supervisor  # pyright: ignore[reportPrivateUsage]
        for _ in range(5):
            async with anyio.create_task_group() as group:
                group.start_soon(supervisor.replace, [config])
                group.start_soon(supervisor.replace, list[ServerConfig]())
            await supervisor.replace([])
            await anyio.lowlevel.checkpoint()
            assert len(hub.registry) == 0


def test_a_loop_that_has_stopped_is_an_error_and_not_a_hang() -> None:
    home = asyncio.new_event_loop()
    hub = hub_of(memory("calc", Bench(go=lambda _: "1")))
    home.run_until_complete(hub.start())

    async def elsewhere() -> None:
        with pytest.raises(NotConnectedError):
            await hub.call("mcp_calc_go")

    asyncio.run(elsewhere())
    assert home.run_until_complete(hub.call("mcp_calc_go")).text() == "1"
    home.run_until_complete(hub.close())
    home.close()


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_loop_that_ends_without_closing_leaves_no_process() -> None:
    name, _, value = (marker := new_marker()).partition("=")
    stubborn = ServerConfig(
        name="stubborn",
        transport="stdio",
        command="/bin/sh",
        args=("-c", f"{sys.executable} -S -E {script('x').args[-1]}; trap '' TERM; sleep 1000"),
        env={name: value},
        protocol="legacy",
    )
    asyncio.run(hub_of(stubborn).start())
    anyio.run(all_ended, marker)


async def test_starting_and_closing_from_many_tasks_ends_well() -> None:
    hub = hub_of(script("light"))

    async def start() -> None:
        try:
            await hub.start()
        except NotConnectedError:
            return

    with anyio.fail_after(15):
        for _ in range(3):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(start)
                    group.start_soon(hub.close)
        await hub.start()
        assert (await hub.call("mcp_light_echo", {"text": "up"})).text() == "up"
        await hub.close()


async def test_a_server_is_stopped_and_started_from_another_loop() -> None:
    async with hub_of(script("light")) as hub:
        server = hub.server("light")

        async def from_afar() -> None:
            await server.stop()
            await server.start()
            await server.refresh()

        with anyio.fail_after(10):
            await anyio.to_thread.run_sync(lambda: asyncio.run(from_afar()))
            assert (await hub.call("mcp_light_echo", {"text": "up"})).text() == "up"


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
async def test_there_is_never_a_second_process_of_one_server() -> None:
    name, _, value = (marker := new_marker()).partition("=")
    async with hub_of(script("light", env={name: value}, lazy=True)) as hub:
        for _ in range(5):
            async with anyio.create_task_group() as group:
                group.start_soon(hub.server("light").stop)
                group.start_soon(hub.server("light").start)
            await hub.server("light").start()
            assert len(await anyio.to_thread.run_sync(alive, marker)) == 1


async def test_a_server_that_always_says_its_list_has_changed_is_not_listed_for_ever() -> None:
    notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    async with hub_of(raw({"tools/list": TOOLS, "notify": notice})) as hub:
        server = hub.server("raw")
        await anyio.sleep(0.3)
        before = hub.servers["raw"].starts
        await server.stop()
        await anyio.sleep(0.2)
        assert hub.servers["raw"].state == ServerState.CLOSED
        assert hub.servers["raw"].starts == before


@pytest.mark.parametrize(
    "tools",
    [[TOOLS["result"]["tools"][0], None, 5, "x"], 5, {"a": 1}],
    ids=["mixed", "5", "object"],
)
async def test_a_list_with_nonsense_in_it_costs_the_nonsense_only(tools: Any) -> None:
    async with hub_of(raw({"tools/list": {"result": {"tools": tools}}})) as hub:
        if isinstance(tools, list):
            assert set(hub.registry) == {"mcp_raw_go"}
            assert hub.servers["raw"].left_out
        else:
            assert "not return a list" in str(hub.servers["raw"].last_error)


async def test_an_empty_cursor_is_the_end_of_a_list() -> None:
    listed = {"result": {**TOOLS["result"], "nextCursor": ""}}
    async with hub_of(raw({"tools/list": listed})) as hub:
        assert set(hub.registry) == {"mcp_raw_go"}


@pytest.mark.parametrize(
    "answer",
    [
        '{"jsonrpc": "2.0", "id": ID, "result": "text"}',
        '{"jsonrpc": "2.0", "id": ID, "error": "boom"}',
        '{"id": ID, "result": {"content": 5}}',
        '{"jsonrpc": "2.0", "id": ID, "result": ' + '{"a":' * 9_000 + "1" + "}" * 9_000 + "}",
    ],
    ids=["text", "error", "content", "deep"],
)
async def test_an_answer_that_cannot_be_read_is_an_error_at_once(answer: str) -> None:
    async with hub_of(raw({"tools/list": TOOLS, "tools/call": answer})) as hub:
        with anyio.fail_after(5), pytest.raises(ProtocolError):
            await hub.call("mcp_raw_go")
        assert hub.servers["raw"].state == ServerState.READY


def test_half_a_character_is_mended() -> None:
    line = (
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"x\\ud83d","b":"\\ud83d\\ude00","c":"\\\\ud83d"}}'
    )
    message = read_message(line)
    assert message is not None
    assert message.result == {"a": "x\ufffd", "b": "\U0001f600", "c": "\\ud83d"}


async def test_a_server_that_is_being_listed_is_not_idle() -> None:
    bench = Bench(go=lambda _: "1")
    server: Any = bench.server
    listing = server._request_handlers["tools/list"].handler

    async def late(*args: Any) -> Any:
        await anyio.sleep(0.3)
        return await listing(*args)

    server.add_request_handler("tools/list", types.PaginatedRequestParams, late)
    async with hub_of(memory("calc", bench, lazy=True, timeouts=limits(idle=0.05))) as hub:
        assert set(hub.registry) == {"mcp_calc_go"}


async def test_a_frozen_server_with_a_full_pipe_ends_at_the_limit_of_the_call() -> None:
    config = script("light", lazy=True, timeouts=limits(call=1))
    async with hub_of(config) as hub:
        pid = int((await hub.call("mcp_light_pid")).text())
        os.kill(pid, 19)
        with anyio.fail_after(10):
            for _ in range(2):
                with pytest.raises(ToolTimeoutError):
                    await hub.call("mcp_light_echo", {"text": "x" * 1_000_000})


async def test_a_callback_may_stop_the_server_that_asks() -> None:
    async def stop(server: str, params: Mapping[str, Any]) -> None:
        await hub.server(server).stop()

    async def ask(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        await context.session.elicit_form("Well?", {"type": "object", "properties": {}})
        raise AssertionError("There is no client left to respond.")

    bench = Bench(go=lambda _: "1")
    server: Any = bench.server
    server.add_request_handler("tools/call", types.CallToolRequestParams, ask)
    hub = hub_of(memory("calc", bench, protocol="legacy"), elicitation=stop)
    with anyio.fail_after(5):
        async with hub:
            with pytest.raises(ConnectionLostError):
                await hub.call("mcp_calc_go")


async def test_what_a_callback_raises_stays_here() -> None:
    heard: list[str] = []

    async def fail(server: str, params: Mapping[str, Any]) -> None:
        raise RuntimeError("a secret of the host")

    async def ask(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            await context.session.elicit_form("Well?", {"type": "object", "properties": {}})
        except MCPError as error:
            heard.append(str(error))
        return types.CallToolResult(content=[])

    bench = Bench(go=lambda _: "1")
    server: Any = bench.server
    server.add_request_handler("tools/call", types.CallToolRequestParams, ask)
    async with hub_of(memory("calc", bench, protocol="legacy"), elicitation=fail) as hub:
        await hub.call("mcp_calc_go")
    assert heard == ["The request failed"]


@pytest.mark.parametrize("stateless", [True, False])
async def test_refused_credentials_are_said_to_be_so_in_every_mode(stateless: bool) -> None:
    app: Any = Bench(go=lambda _: "1").server.streamable_http_app()
    closed = False

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and closed:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    async with serving(guarded) as origin:
        config = ServerConfig(
            name="web",
            transport="streamable_http",
            url=f"{origin}/mcp",
            stateless=stateless,
            protocol="legacy",
        )
        async with hub_of(msgspec.structs.replace(config, lazy=True)) as hub:
            closed = True
            with pytest.raises(ServerAuthenticationError):
                await hub.call("mcp_web_go")
            closed = False
