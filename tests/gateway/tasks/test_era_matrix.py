"""Tasks of clients of each era before servers of each era, and before servers that go wrong."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from pegboard import Timeouts
from pegboard.gateway import Gateway, GatewayOptions
from pegboard.model.json_values import object_in
from tests.gateway.clients import Caller, text_of
from tests.gateway.servers import hub
from tests.gateway.tasks.slow_calls import SlowDesk, became, handshake, modern
from tests.gateway.tasks.test_following import following, told
from tests.gateway.tasks.test_server_tasks import TOOLS, before, eras, fetched, made_by
from tests.gateway.test_era_bridge import YES, modern_stall
from tests.upstream.board_servers import memory
from tests.upstream.servers.task_server import TaskServer
from tests.upstream.tasks.serving import DONE, WORKING, hosted, stdio

AT_ONCE = GatewayOptions(task_after_for={"*": 0})
clients = pytest.mark.parametrize("client", [modern, handshake])
protocols = pytest.mark.parametrize("protocol", ["2026-07-28", "legacy"])


async def begun(caller: Caller, name: str, **arguments: Any) -> str:
    """Return the task of a call, as each era asks for one."""
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if caller.client.era == "legacy":
        params["task"] = {}
    made = await caller.send("tools/call", **params)
    return object_in(made.get("task") or made)["taskId"]


@clients
@protocols
async def test_a_call_of_a_server_without_tasks_is_one(client: Any, protocol: Any) -> None:
    desk = SlowDesk()
    async with (
        hub(memory("desk", desk.bench, protocol=protocol)) as it,
        Gateway(it, AT_ONCE) as gateway,
    ):
        caller = client(gateway)
        task = await begun(caller, "mcp_desk_slow")
        assert (await caller.send("tasks/get", taskId=task))["status"] == "working"
        desk.go_on.set()
        assert text_of(await fetched(caller, task)) == "done"
        cancelled = await begun(caller, "mcp_desk_slow")
        await caller.send("tasks/cancel", taskId=cancelled)
        await became(caller, cancelled, "cancelled", "completed")
        if client is handshake:
            listed = (await caller.send("tasks/list"))["tasks"]
            assert {it["taskId"] for it in listed} == {task, cancelled}


@protocols
async def test_clients_are_told_of_the_task_of_a_server_without_tasks(protocol: Any) -> None:
    desk = SlowDesk()
    async with (
        hub(memory("desk", desk.bench, protocol=protocol)) as it,
        Gateway(it, AT_ONCE) as gateway,
    ):
        caller, session = modern(gateway), handshake(gateway)
        gateway.connected(session.client, session.wire)
        task, other = [await begun(client, "mcp_desk_slow") for client in (caller, session)]
        async with following(caller, task) as agreed:
            assert agreed == [task]
            desk.go_on.set()
            assert text_of((await told(caller, "completed"))["result"]) == "done"
        status = ""
        while status != "completed":
            heard = await session.wire.next("notifications/tasks/status")
            assert heard["taskId"] == other
            status = heard["status"]


@protocols
async def test_a_slow_call_of_a_server_of_each_era_becomes_a_task(protocol: Any) -> None:
    desk = SlowDesk()
    options = GatewayOptions(task_after=0.05)
    async with (
        hub(memory("desk", desk.bench, protocol=protocol)) as it,
        Gateway(it, options) as gateway,
    ):
        caller = modern(gateway)
        made = await caller.call("mcp_desk_slow")
        assert made["resultType"] == "task"
        desk.go_on.set()
        assert text_of(await fetched(caller, made["taskId"])) == "done"


@eras
async def test_a_client_that_listens_is_told_of_the_task_of_a_server(era: str) -> None:
    server = TaskServer(era)
    done = DONE if era == "modern" else {"status": "completed"}
    async with before(server, era) as gateway:
        caller = modern(gateway)
        task = await made_by(caller, TOOLS[era], states=[*[WORKING] * 8, done])
        async with following(caller, task) as agreed:
            assert agreed == [task]
            assert text_of((await told(caller, "completed"))["result"]) == "done"


@clients
async def test_what_a_server_asks_by_its_result_is_asked_by_the_task(client: Any) -> None:
    async with hub(modern_stall().config("desk")) as it, Gateway(it, AT_ONCE) as gateway:
        caller = client(gateway, answers=lambda *_: YES, elicitation={})
        task = await begun(caller, "mcp_desk_ask")
        if client is modern:
            [key] = (await became(caller, task, "input_required"))["inputRequests"]
            await caller.send("tasks/update", taskId=task, inputResponses={key: YES})
        assert text_of(await fetched(caller, task)) == "blue"


@eras
async def test_what_the_task_of_a_server_asks_is_asked_by_the_task(era: str) -> None:
    server = TaskServer(era)
    form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    question = {"method": "elicitation/create", "params": form}
    asking: dict[str, Any] = {"status": "input_required"}
    if era == "modern":
        asking["inputRequests"] = {"who": question}
    async with before(server, era) as gateway:
        caller = modern(gateway, elicitation={})
        task = await made_by(caller, TOOLS[era], states=[asking], question=question)
        [(key, asked)] = (await became(caller, task, "input_required"))["inputRequests"].items()
        assert asked["params"]["message"] == "Who?"
        await caller.send("tasks/update", taskId=task, inputResponses={key: YES})
        assert "blue" in text_of(await fetched(caller, task))


LOST = "look before you repeat it"


@clients
@eras
@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_server_dies_with_a_task(
    client: Any, era: str, tmp_path: Path, is_kept: bool
) -> None:
    config = stdio(era, tmp_path / "tasks.json" if is_kept else None)
    done = DONE if era == "modern" else {"status": "completed"}
    async with hub(config) as it, Gateway(it) as gateway:
        caller = client(gateway)
        task = await made_by(caller, TOOLS[era], states=[WORKING, {"exit": True}, WORKING, done])
        assert (LOST if not is_kept else "done") in text_of(await fetched(caller, task))


@clients
@eras
@pytest.mark.parametrize(
    "state", [WORKING, {**WORKING, "taskId": "task-9"}], ids=["never ends", "answers another's"]
)
async def test_a_server_goes_wrong_about_a_task(
    client: Any, era: str, state: dict[str, Any]
) -> None:
    async with (
        hosted(era, relays_questions=True, timeouts=Timeouts(task=0.3)) as (it, server),
        Gateway(it) as gateway,
    ):
        caller = client(gateway)
        task = await made_by(caller, TOOLS[era], states=[state])
        result = await fetched(caller, task)
        assert result["isError"]
        assert "task-9" not in (await caller.send("tasks/get", taskId=task)).values()
        # Its work goes to nobody any more.
        with anyio.fail_after(5):
            while not server.tasks.asked("tasks/cancel"):
                await checkpoint()
