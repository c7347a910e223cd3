"""Clients of the modern era that listen for changes of their tasks."""

from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from pegboard.gateway import Gateway, RpcError
from pegboard.gateway.request import object_in
from pegboard.model.principal import Principal
from pegboard.storage import open_store
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import Stall, hub
from tests.gateway.tasks.slow_calls import SLOW, SlowDesk, gateway_with, modern

META = {"io.modelcontextprotocol/subscriptionId": 7}


@asynccontextmanager
async def following(caller: Caller, *tasks: Any) -> AsyncGenerator[list[str]]:
    """Listen for changes of tasks; give those that the gateway has agreed to."""
    async with anyio.create_task_group() as group:
        wanted: dict[str, Any] = {"notifications": {"taskIds": [*tasks]}}

        async def listen() -> None:
            await caller.send("subscriptions/listen", **wanted)

        group.start_soon(listen)
        agreed = await caller.wire.next("notifications/subscriptions/acknowledged")
        yield object_in(agreed["notifications"]).get("taskIds", [])
        group.cancel_scope.cancel()


async def told(caller: Caller, *statuses: str) -> dict[str, Any]:
    while True:
        found = dict(await caller.wire.next("notifications/tasks"))
        assert found.pop("_meta") == META
        if found["status"] in statuses:
            return found


async def test_a_client_is_told_what_it_would_have_asked_for() -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        caller, listener = modern(gateway), modern(gateway)
        task = (await caller.call(SLOW))["taskId"]
        async with following(listener, task) as agreed:
            assert agreed == [task]
            assert (await told(listener, "working"))["taskId"] == task
            desk.go_on.set()
            found = await told(listener, "completed")
            assert text_of(found["result"]) == "done"
            asked = await caller.send("tasks/get", taskId=task)
            assert {**asked, "resultType": None, "_meta": None} == {
                **found,
                "resultType": None,
                "_meta": None,
            }


async def test_a_client_is_told_of_questions() -> None:
    stall = Stall()
    async with hub(stall.config("desk", protocol="legacy")) as it, Gateway(it) as gateway:
        caller = modern(gateway, elicitation={})
        task = (await caller.call("mcp_desk_ask"))["taskId"]
        async with following(caller, task):
            [key] = (await told(caller, "input_required"))["inputRequests"]
            said = {"action": "accept", "content": {"word": "red"}}
            await caller.send("tasks/update", taskId=task, inputResponses={key: said})
            assert text_of((await told(caller, "completed"))["result"]) == "accept:red"


async def test_tasks_of_others_are_left_out() -> None:
    async with gateway_with(SlowDesk()) as gateway:
        task = (await modern(gateway).call(SLOW))["taskId"]
        other = modern(gateway, principal=Principal(subject="o", scopes=frozenset({"call"})))
        async with following(other, task, "pbt_" + "x" * 32, 7) as agreed:
            assert agreed == []


async def test_a_client_has_to_declare_the_extension() -> None:
    async with gateway_with(SlowDesk()) as gateway:
        task = (await modern(gateway).call(SLOW))["taskId"]
        with pytest.raises(RpcError) as refused:
            await Caller(gateway, face=FULL).send(
                "subscriptions/listen", notifications={"taskIds": [task]}
            )
        assert refused.value.code == -32021
        with pytest.raises(RpcError) as refused:
            many = {"taskIds": ["pbt_" + "x" * 32] * 101}
            await modern(gateway).send("subscriptions/listen", notifications=many)
        assert refused.value.code == -32602


@pytest.fixture
def stores(tmp_path: Path) -> Any:
    with ExitStack() as stack:
        url = f"sqlite://{tmp_path / 'tasks.db'}"
        yield [stack.enter_context(open_store(url)) for _ in range(2)]


async def test_another_gateway_tells_of_a_task(stores: Any) -> None:
    desk = SlowDesk()
    async with (
        gateway_with(desk, store=stores[0]) as one,
        gateway_with(SlowDesk(), store=stores[1]) as two,
    ):
        task = (await modern(one).call(SLOW))["taskId"]
        listener = modern(two)
        async with following(listener, task) as agreed:
            assert agreed == [task]
            assert (await told(listener, "working"))["taskId"] == task
            desk.go_on.set()
            assert text_of((await told(listener, "completed"))["result"]) == "done"
