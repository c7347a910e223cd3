"""Phases: each part of a call's time is added where it is spent, and only there."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from pegboard import Hub, Registry
from pegboard.config import ServerConfig
from pegboard.gateway import Gateway, GatewayOptions
from pegboard.model import CallRecord, Phases
from pegboard.observe.call_reporter import CallReporter
from pegboard.policies import Concurrency
from tests.gateway.clients import FULL, Caller
from tests.gateway.servers import Stall, bench, hub
from tests.upstream.board_servers import Bench, memory, until

YES = {"action": "accept", "content": {"word": "blue"}}


@asynccontextmanager
async def observed(
    config: ServerConfig, records: list[CallRecord], **options: Any
) -> AsyncGenerator[tuple[Hub, Gateway]]:
    """Open a hub and a gateway whose calls are recorded as `pegboard serve` records them."""
    settings = options.pop("settings", GatewayOptions())
    reporter = CallReporter(records.append)
    registry = Registry(**options)
    async with (
        hub(config, registry=registry) as it,
        Gateway(it, settings, reporter=reporter) as gateway,
    ):
        registry.observe(reporter.observer(it.server))
        yield it, gateway


def spent(record: CallRecord) -> set[str]:
    """Return the phases in which time was spent."""
    assert record.phases is not None
    parts = {name: getattr(record.phases, name) for name in Phases.__struct_fields__}
    assert all(0 <= it <= record.duration for it in parts.values())
    assert sum(parts.values()) <= record.duration
    return {name for name, seconds in parts.items() if seconds}


async def echo(_: Any) -> str:
    return "x"


async def test_a_plain_call_spends_its_time_at_the_server() -> None:
    records: list[CallRecord] = []
    async with observed(bench("calc", echo=echo), records) as (_, gateway):
        await Caller(gateway, face=FULL).call("mcp_calc_echo")
    assert [spent(it) for it in records] == [{"at_server"}]


async def test_the_time_in_the_queue_is_queued() -> None:
    records: list[CallRecord] = []
    began, let = anyio.Event(), anyio.Event()

    async def slow(_: Any) -> str:
        began.set()
        await let.wait()
        return "x"

    made = memory("calc", Bench(slow=slow))
    async with observed(made, records, concurrency=Concurrency(1)) as (_, gateway):
        caller = Caller(gateway, face=FULL)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(caller.call, "mcp_calc_slow")
                await began.wait()
                group.start_soon(caller.call, "mcp_calc_slow")
                await anyio.wait_all_tasks_blocked()
                let.set()
    first, second = records
    assert "queued" not in spent(first)
    assert spent(second) == {"queued", "at_server"}


async def test_the_time_of_starting_a_server_is_connecting() -> None:
    records: list[CallRecord] = []
    async with observed(bench("calc", echo=echo), records) as (it, gateway):
        await it.server("calc").stop()
        await Caller(gateway, face=FULL).call("mcp_calc_echo")
        await Caller(gateway, face=FULL).call("mcp_calc_echo")
    assert [spent(it) for it in records] == [{"connecting", "at_server"}, {"at_server"}]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_time_of_a_person_is_waiting_and_not_at_the_server(era: Any) -> None:
    records: list[CallRecord] = []
    config = Stall().config("desk", protocol="legacy")
    async with observed(config, records) as (_, gateway):
        caller = Caller(gateway, era, face=FULL, elicitation={}, answers=lambda *_: YES)
        result = await caller.call("mcp_desk_ask")
        if era == "modern":
            [asked] = result["inputRequests"]
            await caller.send(
                "tools/call",
                name="mcp_desk_ask",
                arguments={},
                inputResponses={asked: YES},
                requestState=result["requestState"],
            )
            await until(lambda: records)
    assert [spent(it) for it in records] == [{"at_server", "waiting"}]


async def test_the_time_of_keeping_a_long_result_is_caching() -> None:
    records: list[CallRecord] = []

    async def long(_: Any) -> str:
        return "a word " * 20_000

    async with observed(bench("calc", long=long), records) as (_, gateway):
        result = await Caller(gateway).call("call_tool", name="mcp_calc_long")
        assert "read_result" in str(result)
    assert [spent(it) for it in records] == [{"at_server", "caching"}]
