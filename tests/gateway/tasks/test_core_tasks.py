"""The core tasks of 2025-11-25, with slow tools of a server that knows no tasks."""

from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types
import pytest

from pegboard.gateway import Gateway, RpcError
from pegboard.model.json_values import object_in
from pegboard.model.principal import Principal
from tests.gateway.clients import Caller, text_of
from tests.gateway.servers import Stall, hub
from tests.gateway.tasks.slow_calls import (
    BROKEN,
    QUICK,
    SICK,
    SLOW,
    SlowDesk,
    became,
    ended,
    gateway_with,
    handshake,
)

RELATED = "io.modelcontextprotocol/related-task"


async def begun(caller: Caller, name: str, /, **task: Any) -> str:
    params: dict[str, Any] = {"name": name, "arguments": {}, "task": task}
    made = await caller.send("tools/call", **params)
    assert made.keys() == {"task"}
    types.Task.model_validate(made["task"])
    return made["task"]["taskId"]


async def test_a_call_with_a_task_is_one_at_once_and_its_result_is_fetched() -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        caller = handshake(gateway)
        task = await begun(caller, SLOW, ttl=60_000)
        found = await caller.send("tasks/get", taskId=task)
        assert (found["status"], found["ttl"]) == ("working", 60_000)
        results: list[dict[str, Any]] = []

        async def fetch() -> None:
            results.append(await caller.send("tasks/result", taskId=task))

        async with anyio.create_task_group() as group:
            group.start_soon(fetch)
            with anyio.fail_after(5):
                while not desk.begun:
                    await anyio.lowlevel.checkpoint()
            assert results == []
            desk.go_on.set()
        assert text_of(results[0]) == "done"
        assert results[0]["_meta"][RELATED] == {"taskId": task}
        assert (await caller.send("tasks/get", taskId=task))["status"] == "completed"


async def test_a_client_that_stops_waiting_does_not_stop_its_task() -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        caller = handshake(gateway)
        task = await begun(caller, SLOW)
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                await caller.send("tasks/result", taskId=task)

            group.start_soon(wait)
            with anyio.fail_after(5):
                while gateway.busy < 2:
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert (await caller.send("tasks/get", taskId=task))["status"] == "working"
        desk.go_on.set()
        assert text_of(await caller.send("tasks/result", taskId=task)) == "done"


async def test_a_result_is_not_waited_for_without_a_limit() -> None:
    async with gateway_with(SlowDesk(), parked_seconds=0.05) as gateway:
        caller = handshake(gateway)
        task = await begun(caller, SLOW)
        with pytest.raises(RpcError) as late:
            await caller.send("tasks/result", taskId=task)
        assert "Ask again" in late.value.message


async def test_a_call_without_a_task_is_a_plain_one() -> None:
    desk = SlowDesk()
    desk.go_on.set()
    async with gateway_with(desk) as gateway:
        assert text_of(await handshake(gateway).call(SLOW)) == "done"
        older = handshake(gateway, version="2025-06-18")
        params: dict[str, Any] = {"name": SLOW, "arguments": {}, "task": {}}
        assert text_of(await older.send("tools/call", **params)) == "done"
        with pytest.raises(RpcError) as refused:
            await older.send("tasks/list")
        assert refused.value.code == -32601


async def test_tools_say_that_they_can_be_tasks() -> None:
    async with gateway_with(SlowDesk()) as gateway:
        for face in ("search", "full"):
            caller = handshake(gateway)
            if face == "search":
                caller = Caller(gateway, "legacy")
            tools = (await caller.send("tools/list"))["tools"]
            said = {it["name"]: it.get("execution") for it in tools}
            name = "call_tool" if face == "search" else SLOW
            assert said[name] == {"taskSupport": "optional"}
            assert said.get("search_tools") is None
        older = handshake(gateway, version="2025-06-18")
        assert all("execution" not in it for it in (await older.send("tools/list"))["tools"])


async def test_failures_are_told_as_this_version_has_them() -> None:
    desk = SlowDesk()
    desk.go_on.set()
    async with gateway_with(desk) as gateway:
        caller = handshake(gateway)
        sick, broken = await begun(caller, SICK), await begun(caller, BROKEN)
        assert (await ended(caller, sick))["status"] == "failed"
        assert (await caller.send("tasks/result", taskId=sick))["isError"] is True
        assert (await ended(caller, broken))["status"] == "failed"
        with pytest.raises(RpcError) as failed:
            await caller.send("tasks/result", taskId=broken)
        assert (failed.value.code, failed.value.data) == (-32050, {"part": "bit"})


async def test_a_caller_lists_its_own_tasks_page_by_page() -> None:
    desk = SlowDesk()
    async with gateway_with(desk, page_size=2) as gateway:
        caller = handshake(gateway)
        made = [await begun(caller, SLOW) for _ in range(5)]
        other = Principal(subject="other", scopes=frozenset({"call"}))
        stranger = handshake(gateway, principal=other, session="s2")
        theirs = await begun(stranger, SLOW)
        listed: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await caller.send("tasks/list", **cursor)
            assert len(page["tasks"]) <= 2
            listed += [it["taskId"] for it in page["tasks"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert listed == made[::-1]
        assert [it["taskId"] for it in (await stranger.send("tasks/list"))["tasks"]] == [theirs]


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
async def test_a_task_does_not_exist_for_others(method: str) -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        task = await begun(handshake(gateway), SLOW)
        other = Principal(subject="other", scopes=frozenset({"call"}))
        stranger = handshake(gateway, principal=other, session="s2")
        said: set[tuple[int, str]] = set()
        for named in (task, "pbt_" + "x" * 32, None):
            with pytest.raises(RpcError) as refused:
                await stranger.send(method, taskId=named)
            said.add((refused.value.code, refused.value.message))
        [(code, _)] = said
        assert code == -32602


async def test_a_task_is_cancelled_once() -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        caller = handshake(gateway)
        task = await begun(caller, SLOW)
        assert (await caller.send("tasks/cancel", taskId=task))["status"] == "cancelled"
        with pytest.raises(RpcError) as refused:
            await caller.send("tasks/cancel", taskId=task)
        assert refused.value.code == -32602
        with pytest.raises(RpcError):
            await caller.send("tasks/result", taskId=task)


async def test_a_client_is_asked_while_it_waits_for_the_result() -> None:
    stall = Stall()
    async with hub(stall.config("desk", protocol="legacy")) as it, Gateway(it) as gateway:

        def answers(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
            assert method == "elicitation/create"
            assert params["_meta"][RELATED] == {"taskId": task}
            return {"action": "accept", "content": {"word": "red"}}

        caller = handshake(gateway, answers=answers, elicitation={})
        task = await begun(caller, "mcp_desk_ask")
        found = await became(caller, task, "input_required")
        assert "inputRequests" not in found
        result = await caller.send("tasks/result", taskId=task)
        assert text_of(result) == "accept:red"


async def test_the_session_of_a_client_is_told_of_its_tasks() -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        caller = handshake(gateway)
        gateway.connected(caller.client, caller.wire)
        task = await begun(caller, SLOW)
        desk.go_on.set()
        told = await caller.wire.next("notifications/tasks/status")
        types.TaskStatusNotificationParams.model_validate(told)
        assert (told["taskId"], told["status"]) == (task, "completed")


async def test_a_quick_tool_is_a_task_when_the_client_wants_one() -> None:
    async with gateway_with(SlowDesk()) as gateway:
        caller = handshake(gateway)
        task = await begun(caller, QUICK)
        assert text_of(await caller.send("tasks/result", taskId=task)) == "at once"


async def test_a_task_is_refused_when_too_many_run() -> None:
    desk = SlowDesk()
    async with gateway_with(desk, tasks_running=2) as gateway:
        caller = handshake(gateway)
        await begun(caller, SLOW)
        with pytest.raises(RpcError) as refused:
            await begun(caller, SLOW)
        assert object_in(refused.value.data)["setting"] == "gateway.tasks_running"
