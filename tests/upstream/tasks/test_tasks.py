"""A call whose server makes a task of it returns the result of the task, on every wire."""

from typing import Any

import anyio
import pytest

from pegboard import (
    ProtocolError,
    SyncHub,
    TaskCancelledError,
    TaskLostError,
    TaskTimeoutError,
    Timeouts,
    ToolTimeoutError,
)
from pegboard.model.task import ServerTask, TaskStatus
from pegboard.upstream import CallContext
from pegboard.upstream.standalone import StandaloneClient
from pegboard.upstream.tasks import poll_pace
from tests.upstream.board_servers import hub_of, until
from tests.upstream.servers.task_server import TaskServer
from tests.upstream.tasks.serving import DONE, WORKING, Watcher, call, hosted, serving, stdio

# Servers of the SDK make no tasks of the handshake era.
EVERYWHERE = pytest.mark.parametrize(
    ("wire", "era"),
    [
        *(("memory", "modern"), ("http", "modern"), ("stdio", "modern")),
        *(("http", "handshake"), ("stdio", "handshake")),
    ],
)
ERAS = pytest.mark.parametrize("era", ["modern", "handshake"])
FAILED = {"status": "failed", "error": {"code": -32050, "message": "The disk is full"}}
TOOL_ERROR = {"content": [{"type": "text", "text": "no such city"}], "isError": True}


def short(**seconds: float) -> Timeouts:
    return Timeouts(**{"connect": 10.0, "list": 10.0, "call": 10.0, **seconds})


@EVERYWHERE
async def test_a_call_returns_the_result_of_the_task_that_the_server_makes_of_it(
    wire: str, era: str
) -> None:
    async with serving(wire, era) as (hub, _):
        result = await call(hub, WORKING, WORKING, DONE)
        assert (result.text(), result.is_error, dict(result.meta)) == ("done", False, {})
        # And a plain result is one as before.
        assert (await call(hub)).text() == "plain"


@EVERYWHERE
async def test_a_tool_that_reports_its_failure_by_a_task_gives_a_result(
    wire: str, era: str
) -> None:
    async with serving(wire, era) as (hub, _):
        # The handshake era calls such a task failed.
        status = "completed" if era == "modern" else "failed"
        over: dict[str, Any] = {"status": status}
        if era == "modern":
            over["result"] = TOOL_ERROR
        result = await call(hub, WORKING, over, result=TOOL_ERROR)
        assert (result.text(), result.is_error) == ("no such city", True)


@EVERYWHERE
async def test_a_task_that_failed_is_the_error_that_the_call_would_have_had(
    wire: str, era: str
) -> None:
    async with serving(wire, era) as (hub, _):
        with pytest.raises(ProtocolError) as caught:
            await call(hub, WORKING, FAILED, error=FAILED["error"])
        assert (caught.value.rpc_code, caught.value.rpc_message) == (-32050, "The disk is full")
        assert (caught.value.tool, caught.value.sent) == ("mcp_it_go", True)


@EVERYWHERE
async def test_a_task_that_was_cancelled_at_the_server_is_an_error_that_names_it(
    wire: str, era: str
) -> None:
    async with serving(wire, era) as (hub, _):
        with pytest.raises(TaskCancelledError, match="by an operator") as caught:
            await call(hub, WORKING, {"status": "cancelled", "statusMessage": "by an operator"})
        error = caught.value
        assert (error.server, error.tool, error.task, error.sent) == (
            *("it", "mcp_it_go", "task-1", True),
        )


@EVERYWHERE
async def test_a_task_that_the_server_forgot_is_lost(wire: str, era: str) -> None:
    async with serving(wire, era) as (hub, _):
        unknown = {"code": -32602, "message": "Task has expired"}
        with pytest.raises(TaskLostError, match="Task has expired") as caught:
            await call(hub, WORKING, {"rpc_error": unknown})
        assert (caught.value.task, caught.value.sent) == ("task-1", True)


@EVERYWHERE
async def test_the_watcher_and_the_client_hear_how_a_task_goes(wire: str, era: str) -> None:
    async with serving(wire, era) as (hub, _):
        watcher, progress = Watcher(), list[Any]()
        context = CallContext(
            task=watcher, on_progress=lambda *told: progress.append(told), client="one"
        )
        one, two = {**WORKING, "statusMessage": "one"}, {**WORKING, "statusMessage": "t\u202ewo"}
        await call(hub, one, one, two, two, DONE, context=context)
        kind: Any = era
        assert watcher.tasks == [
            ServerTask(task_id="task-1", era=kind, ttl_ms=60_000, poll_interval_ms=1)
        ]
        working = TaskStatus.WORKING
        assert watcher.changes == [(working, None), (working, "one"), (working, "t\\u202ewo")]
        assert progress == [(1.0, None, "one"), (2.0, None, "t\\u202ewo")]


@ERAS
async def test_the_requests_about_a_task_name_it_and_say_what_the_client_can(era: str) -> None:
    async with hosted(era) as (hub, server):
        await call(hub, WORKING, DONE, context=CallContext(capabilities={"roots": {}}))
        [asked] = server.tasks.asked("tasks/get")[:1]
        heads = [it.lower() for it in server.heads if "tasks/get" in it]
        if era == "modern":
            said = asked["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            assert said == {"roots": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
            assert all("mcp-name: task-1" in it for it in heads)
            assert heads
        else:
            assert asked == {"taskId": "task-1"}


@pytest.mark.parametrize("has_tasks", [True, False])
async def test_a_server_may_hear_of_tasks_only_for_clients_that_have_them(has_tasks: bool) -> None:
    context = CallContext(capabilities={"roots": {}}, task=Watcher() if has_tasks else None)
    async with serving("memory", "modern", tasks="declared") as (hub, server):
        assert (await call(hub, DONE, context=context)).text() == "done"
        for method, is_told in (("tools/call", has_tasks), ("tasks/get", True)):
            for asked in server.asked(method):
                said = asked["_meta"]["io.modelcontextprotocol/clientCapabilities"]
                assert said["roots"] == {}
                assert ("io.modelcontextprotocol/tasks" in said.get("extensions", {})) is is_told


@ERAS
@pytest.mark.parametrize("limit", ["setting", "ttl"])
async def test_a_task_that_never_ends_is_cancelled_at_its_limit(era: str, limit: str) -> None:
    timeouts = short(task=0.3) if limit == "setting" else short()
    async with serving("http", era, timeouts=timeouts) as (hub, tasks):
        ttl = 60_000 if limit == "setting" else 100
        states = [{**WORKING, "ttlMs": ttl}]
        with pytest.raises(TaskTimeoutError, match=r"'task-1' of server 'it'") as caught:
            await call(hub, *states, task={"ttlMs": ttl})
        assert (caught.value.task, caught.value.sent) == ("task-1", True)
        await until(lambda: tasks.asked("tasks/cancel"))


async def test_the_limit_of_a_call_does_not_end_a_task_that_goes_on() -> None:
    async with serving("http", "modern", timeouts=short(call=0.2)) as (hub, _):
        states = [{**WORKING, "pollIntervalMs": 100, "statusMessage": str(it)} for it in range(5)]
        assert (await call(hub, *states, DONE)).text() == "done"


@EVERYWHERE
async def test_a_caller_that_leaves_cancels_the_task(wire: str, era: str) -> None:
    async with serving(wire, era) as (hub, tasks):
        watcher = Watcher()
        async with anyio.create_task_group() as group:
            context = CallContext(task=watcher)
            group.start_soon(lambda: call(hub, WORKING, context=context))
            await watcher.has_started.wait()
            group.cancel_scope.cancel()
        if wire != "stdio":
            await until(lambda: tasks.asked("tasks/cancel"))
        with pytest.raises(TaskCancelledError):
            await hub.server("it").resume_task(watcher.tasks[0], "mcp_it_go")


@ERAS
async def test_a_task_that_comes_after_its_caller_has_left_is_cancelled(era: str) -> None:
    async with serving("stdio", era, timeouts=short(call=0.5)) as (hub, _):
        with pytest.raises(ToolTimeoutError):
            await call(hub, WORKING, is_late=True)
        assert (await call(hub)).text() == "plain"
        kind: Any = era
        with pytest.raises(TaskCancelledError):
            await hub.server("it").resume_task(ServerTask(task_id="task-1", era=kind), "mcp_it_go")


@EVERYWHERE
async def test_a_task_can_be_followed_by_its_id_and_cancelled(wire: str, era: str) -> None:
    async with serving(wire, era) as (hub, _):
        watcher, server = Watcher(), hub.server("it")
        context = CallContext(task=watcher)
        async with anyio.create_task_group() as group:

            async def called() -> None:
                with pytest.raises(TaskCancelledError):
                    await call(hub, WORKING, context=context)

            group.start_soon(called)
            await watcher.has_started.wait()
            await server.cancel_task(watcher.tasks[0])
        with pytest.raises(TaskCancelledError):
            await server.resume_task(watcher.tasks[0], "mcp_it_go")
        unknown = ServerTask(task_id="no-such", era=watcher.tasks[0].era)
        with pytest.raises(TaskLostError) as caught:
            await server.resume_task(unknown, "mcp_it_go")
        assert (caught.value.task, caught.value.tool) == ("no-such", "mcp_it_go")
        # Best effort: there is nothing to cancel.
        await server.cancel_task(unknown)


@ERAS
async def test_a_task_of_another_process_is_resumed_by_its_id(era: str) -> None:
    tasks, watcher, kind = TaskServer(era), Watcher(), era
    said = {**WORKING, "statusMessage": "again"}
    # The process that made this call is gone.
    call = {"name": "go", "arguments": {"states": [said, said, DONE]}}
    assert tasks.respond({"id": 1, "method": "tools/call", "params": call})
    task: Any = {"task_id": "task-1", "era": kind}
    async with hosted(era, tasks) as (hub, _):
        context = CallContext(task=watcher)
        result = await hub.server("it").resume_task(ServerTask(**task), "mcp_it_go", context)
        assert result.text() == "done"
    # Nothing is made anew, so nothing has started.
    assert (watcher.tasks, watcher.changes) == ([], [(TaskStatus.WORKING, "again")])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"taskId": "task-9"}, "answered with another"),
        ({"status": "done"}, "no task"),
        ({"status": ["working"]}, "no task"),
        ({"status": "working", "ttlMs": "soon"}, "no task"),
        ({"status": "working", "pollIntervalMs": -1}, "no task"),
        ({"status": "completed"}, "gives no result"),
        ({"status": "completed", "result": []}, "no task"),
        ({"status": "completed", "result": {"resultType": "task"}}, "cannot have"),
        ({"status": "failed"}, "failed without an error"),
        ({"status": "failed", "error": "x"}, "no task"),
    ],
)
async def test_a_wrong_answer_about_a_task_is_an_error_of_the_server(
    fields: dict[str, Any], words: str
) -> None:
    async with serving("http", "modern") as (hub, _):
        with pytest.raises(ProtocolError, match=words) as caught:
            await call(hub, WORKING, {**WORKING, **fields})
        assert (caught.value.server, caught.value.tool) == ("it", "mcp_it_go")


@pytest.mark.parametrize("fields", [{"taskId": ""}, {"taskId": "x" * 1025}, {"status": None}])
async def test_a_task_that_is_none_is_refused(fields: dict[str, Any]) -> None:
    async with serving("http", "modern") as (hub, tasks):
        with pytest.raises(ProtocolError, match="no task"):
            await call(hub, WORKING, task=fields)
        assert tasks.asked("tasks/get") == []


async def test_an_answer_about_another_task_cancels_the_one_that_was_asked_for() -> None:
    async with serving("http", "modern") as (hub, tasks):
        with pytest.raises(ProtocolError):
            await call(hub, {**WORKING, "taskId": "task-9"})
        await until(lambda: tasks.asked("tasks/cancel"))
        assert tasks.asked("tasks/cancel")[0]["taskId"] == "task-1"


@ERAS
async def test_a_task_that_two_calls_get_is_given_to_neither(era: str) -> None:
    async with serving("http", era) as (hub, tasks):
        watcher = Watcher()
        async with anyio.create_task_group() as group:

            async def first() -> None:
                with pytest.raises(TaskLostError, match="another task"):
                    await call(hub, WORKING, context=CallContext(task=watcher))

            group.start_soon(first)
            await watcher.has_started.wait()
            tasks.next_id = "task-1"
            with pytest.raises(ProtocolError, match="two calls the same task"):
                await call(hub, DONE)


@ERAS
async def test_a_task_of_a_running_call_is_given_to_no_other_caller(era: str) -> None:
    async with serving("http", era) as (hub, tasks), anyio.create_task_group() as group:
        watcher = Watcher()
        group.start_soon(lambda: call(hub, WORKING, context=CallContext(task=watcher)))
        await watcher.has_started.wait()
        with pytest.raises(TaskLostError, match="a call that is running"):
            await hub.server("it").resume_task(watcher.tasks[0], "mcp_it_go")
        assert tasks.asked("tasks/cancel") == []
        group.cancel_scope.cancel()


@ERAS
async def test_a_server_may_fail_twice_in_a_row_and_not_three_times(era: str) -> None:
    failure = {"rpc_error": {"code": -32603, "message": "The table is locked"}}
    async with serving("http", era) as (hub, _):
        assert (await call(hub, failure, failure, WORKING, failure, failure, DONE)).text() == "done"
        with pytest.raises(TaskLostError, match="The table is locked"):
            await call(hub, failure)


async def test_the_interval_of_a_server_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_pace, "LONGEST_PAUSE", 0.05)
    async with serving("memory", "modern") as (hub, _):
        year = {"pollIntervalMs": 10**14, "ttlMs": 10**15}
        assert (await call(hub, {**WORKING, **year}, DONE, task=year)).text() == "done"


async def test_other_calls_run_while_a_task_is_followed() -> None:
    async with serving("stdio", "handshake") as (hub, _), anyio.create_task_group() as group:
        watcher = Watcher()
        group.start_soon(lambda: call(hub, WORKING, context=CallContext(task=watcher)))
        await watcher.has_started.wait()
        for _ in range(20):
            assert (await call(hub)).text() == "plain"
        group.cancel_scope.cancel()


async def test_a_standalone_client_gets_the_result_of_a_task() -> None:
    client = StandaloneClient(stdio("modern"))
    try:
        await client.connect()
        raw = await client.call_tool("go", {"states": [WORKING, DONE]})
        assert raw["content"] == [{"type": "text", "text": "done"}]
    finally:
        await client.close()


def test_a_call_from_another_thread_gets_the_result_of_a_task() -> None:
    with SyncHub(hub_of(stdio("modern"))) as hub:
        assert hub.call("mcp_it_go", {"states": [WORKING, DONE]}).text() == "done"
