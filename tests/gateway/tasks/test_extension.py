"""The tasks extension of the modern era, with slow tools of a server that knows no tasks."""

from datetime import datetime
from typing import Any

import anyio
import pytest

from pegboard.gateway import Gateway, GatewayOptions, RpcError
from pegboard.model.principal import Principal
from pegboard.upstream.messages.protocol import TASKS
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import Stall, hub
from tests.gateway.tasks.slow_calls import (
    AT_ONCE,
    BROKEN,
    LONG,
    QUICK,
    SICK,
    SLOW,
    SlowDesk,
    became,
    ended,
    gateway_with,
    modern,
)
from tests.upstream.board_servers import memory
from tests.upstream.hosted import HostedServer, config_of, listening, result
from tests.upstream.http_servers import answer

MISSING = -32021


async def test_a_slow_call_becomes_a_task_and_its_result_is_in_the_task() -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        caller = modern(gateway)
        made = await caller.call(SLOW, what="digging")
        assert made.pop("_meta").keys() == {"io.modelcontextprotocol/serverInfo"}
        task = made["taskId"]
        assert made.keys() == {
            *("resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"),
            "pollIntervalMs",
        }
        assert (made["resultType"], made["status"]) == ("task", "working")
        assert datetime.fromisoformat(made["createdAt"]).utcoffset() is not None
        working = await caller.send("tasks/get", taskId=task)
        assert (working["status"], working["resultType"]) == ("working", "complete")
        assert "result" not in working
        desk.go_on.set()
        found = await ended(caller, task)
        assert found["status"] == "completed"
        assert text_of(found["result"]) == "done digging"
        assert found["result"]["resultType"] == "complete"
        # It stays.
        assert text_of((await caller.send("tasks/get", taskId=task))["result"]) == "done digging"


async def test_a_call_that_ends_soon_is_no_task() -> None:
    async with gateway_with(SlowDesk()) as gateway:
        result = await modern(gateway).call(QUICK)
        assert (text_of(result), result["resultType"]) == ("at once", "complete")


async def test_a_client_that_does_not_declare_the_extension_waits_for_the_result() -> None:
    desk = SlowDesk()
    desk.go_on.set()
    async with gateway_with(desk) as gateway:
        caller = Caller(gateway, face=FULL)
        # A word of the handshake era changes nothing.
        params: dict[str, Any] = {"name": SLOW, "arguments": {}, "task": {"ttl": 1000}}
        assert text_of(await caller.send("tools/call", **params)) == "done"
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(RpcError) as refused:
                await caller.send(method, taskId="x", inputResponses={})
            assert refused.value.code == MISSING
            extensions: dict[str, Any] = {TASKS: {}}
            assert refused.value.data == {"requiredCapabilities": {"extensions": extensions}}


async def test_a_tool_that_fails_completes_its_task_and_a_protocol_error_fails_it() -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        caller = modern(gateway)
        sick, broken = await caller.call(SICK), await caller.call(BROKEN)
        desk.go_on.set()
        found = await ended(caller, sick["taskId"])
        assert (found["status"], found["result"]["isError"]) == ("completed", True)
        found = await ended(caller, broken["taskId"])
        assert found["status"] == "failed"
        error = {"code": -32050, "message": "The drill is broken", "data": {"part": "bit"}}
        assert found["error"] == error
        assert "result" not in found


async def test_a_task_is_cancelled_and_its_server_is_told() -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        caller = modern(gateway)
        task = (await caller.call(SLOW))["taskId"]
        with anyio.fail_after(5):
            while not desk.begun:
                await anyio.lowlevel.checkpoint()
        for _ in range(2):  # the second time it has ended
            done = await caller.send("tasks/cancel", taskId=task)
            assert done.keys() == {"resultType", "_meta"}
        found = await ended(caller, task)
        assert (found["status"], "result" in found) == ("cancelled", False)
        with anyio.fail_after(5):
            await desk.cancelled.wait()


async def test_a_task_counts_as_a_call_of_its_caller() -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        caller = modern(gateway)
        other = modern(gateway, principal=Principal(subject="o", scopes=frozenset({"call"})))
        task = (await caller.call(SLOW))["taskId"]
        assert gateway.parked(caller.exchange("tools/call", name=SLOW)) == 1
        assert gateway.parked(other.exchange("tools/call", name=SLOW)) == 0
        desk.go_on.set()
        await ended(caller, task)
        assert gateway.parked(caller.exchange("tools/call", name=SLOW)) == 0


async def test_a_client_that_leaves_before_it_has_a_task_cancels_the_call() -> None:
    desk = SlowDesk()
    async with gateway_with(desk, task_after_for={}, task_after=600) as gateway:
        async with anyio.create_task_group() as group:
            group.start_soon(modern(gateway).call, SLOW)
            with anyio.fail_after(5):
                while not desk.begun:
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            await desk.cancelled.wait()


async def test_a_tool_that_is_run_by_call_tool_becomes_a_task_after_its_own_time() -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        caller = Caller(gateway, tasks=True)
        made = await caller.call("call_tool", name=SLOW, arguments={"what": "x"})
        assert made["resultType"] == "task"
        desk.go_on.set()
        found = await ended(caller, made["taskId"])
        assert text_of(found["result"]) == "done x"
        # Long results are cut as in a plain call.
        made = await caller.call("call_tool", name=LONG)
        long = (await ended(caller, made["taskId"]))["result"]
        assert len(text_of(long)) < 6000


@pytest.mark.parametrize("pattern", ["desk", "mcp_desk_sl*"])
async def test_a_time_may_be_of_a_server_or_of_some_tools(pattern: str) -> None:
    times = {"other": 600, pattern: 0, "*": 600}
    async with gateway_with(SlowDesk(), task_after_for=times) as gateway:
        assert (await modern(gateway).call(SLOW))["resultType"] == "task"


@pytest.mark.parametrize("method", ["tasks/list", "tasks/result"])
async def test_methods_of_the_handshake_era_do_not_exist(method: str) -> None:
    async with gateway_with(SlowDesk()) as gateway:
        with pytest.raises(RpcError) as refused:
            await modern(gateway).send(method, taskId="x")
        assert refused.value.code == -32601


async def test_without_room_for_tasks_the_extension_is_not_there() -> None:
    desk = SlowDesk()
    desk.go_on.set()
    async with gateway_with(desk, tasks=0) as gateway:
        caller = modern(gateway)
        assert text_of(await caller.call(SLOW)) == "done"
        assert TASKS not in gateway.capabilities("2026-07-28")["extensions"]
        assert "tasks" not in gateway.capabilities("2025-11-25")
        with pytest.raises(RpcError) as refused:
            await caller.send("tasks/get", taskId="x")
        assert refused.value.code == -32601


async def test_the_extension_is_announced_in_its_era_only() -> None:
    async with gateway_with(SlowDesk()) as gateway:
        modern_era, handshake_era = map(gateway.capabilities, ("2026-07-28", "2025-11-25"))
        assert modern_era["extensions"][TASKS] == {}
        assert "tasks" not in modern_era
        assert TASKS not in handshake_era["extensions"]
        assert handshake_era["tasks"]["requests"] == {"tools": {"call": {}}}
        assert "tasks" not in gateway.capabilities("2025-06-18")


async def test_a_result_that_is_too_large_fails_its_task() -> None:
    desk = SlowDesk()
    desk.go_on.set()
    async with gateway_with(desk, task_result_bytes=5000) as gateway:
        caller = modern(gateway)
        found = await ended(caller, (await caller.call(LONG))["taskId"])
        assert found["status"] == "failed"
        assert "gateway.task_result_bytes" in found["error"]["message"]


OTHERS = [
    Principal(subject="other", scopes=frozenset({"call"})),
    Principal(tenant="garden", subject="local", scopes=frozenset({"call"})),
    Principal(subject="local", scopes=frozenset({"call"}), tools=("mcp_desk_quick",)),
]


@pytest.mark.parametrize("principal", OTHERS)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_a_task_does_not_exist_for_others(principal: Principal, method: str) -> None:
    desk = SlowDesk()
    async with (
        hub() as garden,
        hub(memory("desk", desk.bench)) as it,
        Gateway(it, GatewayOptions(**AT_ONCE), open_tenant=lambda _: garden) as gateway,
    ):
        mine, theirs = modern(gateway), modern(gateway, principal=principal)
        task = (await mine.call(SLOW))["taskId"]
        said: list[tuple[int, str, object]] = []
        for named in (task, "pbt_" + "x" * 32, "", 7):
            with pytest.raises(RpcError) as refused:
                await theirs.send(method, taskId=named, inputResponses={})
            said.append((refused.value.code, refused.value.message, refused.value.data))
        assert len(set(said)) == 1
        assert said[0][0] == -32602
        assert (await mine.send("tasks/get", taskId=task))["status"] == "working"
        await gateway.drain(0)


async def test_a_question_makes_a_task_at_once_and_the_answer_goes_on_with_it() -> None:
    stall = Stall()
    stall.asks = 2
    async with hub(stall.config("desk", protocol="legacy")) as it, Gateway(it) as gateway:
        caller = modern(gateway, elicitation={})
        task = (await caller.call("mcp_desk_ask"))["taskId"]
        keys: list[str] = []
        for number in range(2):
            found = await became(caller, task, "input_required")
            while keys and keys[-1] in found["inputRequests"]:
                found = await became(caller, task, "input_required")
            [(key, question)] = found["inputRequests"].items()
            assert question["method"] == "elicitation/create"
            assert question["params"]["message"] == f"Word {number}?"
            said = {"action": "accept", "content": {"word": f"w{number}"}}
            done = await caller.send("tasks/update", taskId=task, inputResponses={"x": said})
            assert done.keys() == {"resultType", "_meta"}
            await caller.send("tasks/update", taskId=task, inputResponses={key: said})
            keys.append(key)
        assert keys[0] != keys[1]
        found = await ended(caller, task)
        assert text_of(found["result"]) == "accept:w0 accept:w1"


@pytest.mark.parametrize("asked", [{f"k{it}": 0 for it in range(101)}, {"k" * 300_000: 0}])
async def test_a_server_that_asks_too_much_at_once_fails_its_task(asked: dict[str, Any]) -> None:
    questions = {key: {"method": "roots/list"} for key in asked}

    async def say(stream: Any, request: dict[str, Any], *_: Any) -> None:
        said = result(request, resultType="input_required", inputRequests=questions)
        await stream.send(answer("200 OK", said, content_type="application/json"))

    async with (
        listening(HostedServer(say)) as server,
        hub(config_of(server)) as it,
        Gateway(it, GatewayOptions(task_after_for={"*": 0})) as gateway,
    ):
        caller = modern(gateway, roots={})
        found = await ended(caller, (await caller.call("mcp_it_go"))["taskId"])
    assert found["status"] == "failed"
    assert "questions at once" in found["error"]["message"]
