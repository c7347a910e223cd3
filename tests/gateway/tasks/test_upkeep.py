"""Tasks that end in time, at other gateways on the same store, and after their gateway."""

import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint

from pegboard.gateway import Gateway, GatewayOptions, RpcError
from pegboard.gateway.tasks.record import TaskRecord
from pegboard.gateway.tasks.table import TaskTable
from pegboard.gateway.tasks.tasks import Tasks
from pegboard.storage import Store, open_store
from tests.gateway.clients import Caller, text_of
from tests.gateway.servers import Stall, hub
from tests.gateway.tasks.slow_calls import (
    AT_ONCE,
    SLOW,
    SlowDesk,
    became,
    ended,
    gateway_with,
    handshake,
    modern,
)
from tests.upstream.board_servers import memory

QUICKLY: dict[str, Any] = {"task_lease": 5.0}
"""Letters are read every second while tasks run; a gateway that is gone is missed soon."""


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[Store]]:
    """The same store, opened as by several processes; outside of the loop, because it blocks."""
    with ExitStack() as stack:
        url = f"sqlite://{tmp_path / 'tasks.db'}"
        yield [stack.enter_context(open_store(url)) for _ in range(3)]


def gateway_at(
    store: Store, desk: SlowDesk, **options: Any
) -> AbstractAsyncContextManager[Gateway]:
    return gateway_with(desk, store=store, **{**QUICKLY, **options})


async def stored(store: Store, task: str) -> TaskRecord | None:
    """Return a task as the store has it."""
    found = await to_thread.run_sync(TaskTable(store).load, task)
    return None if found is None else found.record


async def test_another_gateway_on_the_store_answers_for_a_task(stores: list[Store]) -> None:
    desk = SlowDesk()
    async with gateway_at(stores[0], desk) as one, gateway_at(stores[1], SlowDesk()) as two:
        task = (await modern(one).call(SLOW, what="x"))["taskId"]
        assert (await modern(two).send("tasks/get", taskId=task))["status"] == "working"
        desk.go_on.set()
        found = await ended(modern(two), task)
        assert text_of(found["result"]) == "done x"
        assert text_of(await handshake(two).send("tasks/result", taskId=task)) == "done x"
        listed = (await handshake(two).send("tasks/list"))["tasks"]
        assert [it["taskId"] for it in listed] == [task]


async def test_another_gateway_cancels_a_task(stores: list[Store]) -> None:
    desk = SlowDesk()
    async with gateway_at(stores[0], desk) as one, gateway_at(stores[1], SlowDesk()) as two:
        task = (await modern(one).call(SLOW))["taskId"]
        await modern(two).send("tasks/cancel", taskId=task)
        # Its own gateway writes the end to the store first, so the other one may know it earlier.
        for gateway in (two, one):
            assert (await ended(modern(gateway), task))["status"] == "cancelled"


async def test_another_gateway_takes_the_answer_to_a_question(stores: list[Store]) -> None:
    stall = Stall()
    async with (
        hub(stall.config("desk", protocol="legacy")) as it,
        Gateway(it, store=stores[0]) as one,
        gateway_at(stores[1], SlowDesk()) as two,
    ):
        asking, answering = modern(one, elicitation={}), modern(two)
        task = (await asking.call("mcp_desk_ask"))["taskId"]
        found = await became(answering, task, "input_required")
        [key] = found["inputRequests"]
        said = {"action": "accept", "content": {"word": "green"}}
        await answering.send("tasks/update", taskId=task, inputResponses={key: said})
        assert text_of((await ended(answering, task))["result"]) == "accept:green"


async def test_the_task_of_a_gateway_that_is_gone_has_failed(stores: list[Store]) -> None:
    async with gateway_at(stores[0], SlowDesk()) as gone:
        task = (await modern(gone).call(SLOW))["taskId"]
        record = await stored(stores[2], task)
    assert record is not None
    # As if its process had been killed: the store has what it had then.
    await to_thread.run_sync(TaskTable(stores[2]).save, record)
    async with gateway_at(stores[1], SlowDesk(), task_lease=0.3) as there:
        with anyio.fail_after(20):
            # Although no client asks for it.
            while record is not None and not record.status.is_final:
                record = await stored(stores[2], task)
        found = await ended(modern(there), task)
        assert found["status"] == "failed"
        assert "restarted" in found["error"]["message"]


async def test_a_gateway_that_lives_keeps_its_tasks(stores: list[Store]) -> None:
    desk = SlowDesk()
    options: dict[str, Any] = {"task_lease": 3.0}
    async with (
        gateway_with(desk, store=stores[0], **options) as one,
        gateway_with(SlowDesk(), store=stores[1], **options) as two,
    ):
        task = (await modern(one).call(SLOW))["taskId"]
        said: set[float] = set()
        with anyio.fail_after(20):
            while len(said) < 3:
                said.add(await lives_until(stores[2]))
                assert (await modern(two).send("tasks/get", taskId=task))["status"] == "working"
        desk.go_on.set()
        assert (await ended(modern(two), task))["status"] == "completed"


class SlowTable(TaskTable):
    """Takes its time to note that a gateway lives."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.begun, self.saved = threading.Event(), threading.Event()
        self.happened: list[str] = []

    def stay(self, runner: str, seconds: float) -> None:
        self.begun.set()
        self.saved.wait(0.5)
        super().stay(runner, seconds)
        self.happened.append("lives")


async def test_no_task_is_saved_before_its_gateway_lives(stores: list[Store]) -> None:
    table = SlowTable(stores[0])
    async with anyio.create_task_group() as group:
        tasks = Tasks(GatewayOptions(), group, table, track=lambda _: table.saved.set)
        group.start_soon(tasks.stay_now_and_then)
        await to_thread.run_sync(table.begun.wait)
        # Otherwise another gateway would take over the task that is saved next.
        await tasks.stay_now_and_then()
        table.happened.append("saved")
        table.saved.set()
        assert table.happened == ["lives", "saved"]
        assert tasks.instance in await to_thread.run_sync(table.living)


async def lives_until(store: Store) -> float:
    """Return until when a gateway has said that it lives."""
    found = await to_thread.run_sync(store.namespace("task_runners").items)
    return max(it.value["until"] for it in found.values())


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_task_is_forgotten_when_its_time_is_over(
    stores: list[Store], is_kept: bool
) -> None:
    desk = SlowDesk()
    options: dict[str, Any] = {"task_lease": 0.3, "task_ttl": 1.0}
    async with gateway_with(desk, store=stores[0] if is_kept else None, **options) as gateway:
        caller = modern(gateway)
        task = (await caller.call(SLOW))["taskId"]
        with anyio.fail_after(20):
            while await is_there(caller, task):
                await checkpoint()
            await desk.cancelled.wait()
            while {it.name: it.used for it in gateway.limits()}["tasks"]:
                await checkpoint()
            while await stored(stores[1], task) is not None:
                await checkpoint()


async def is_there(caller: Caller, task: str) -> bool:
    try:
        await caller.send("tasks/get", taskId=task)
    except RpcError:
        return False
    return True


async def test_a_client_may_want_a_shorter_time(stores: list[Store]) -> None:
    async with gateway_at(stores[0], SlowDesk(), task_ttl=100) as gateway:
        caller = handshake(gateway)
        for wanted, given in ((50_000, 50_000), (1, 1000), (10**9, 100_000), ("x", 100_000)):
            params: dict[str, Any] = {"name": SLOW, "arguments": {}, "task": {"ttl": wanted}}
            assert (await caller.send("tools/call", **params))["task"]["ttl"] == given


async def test_a_drain_waits_for_tasks(stores: list[Store]) -> None:
    desk = SlowDesk()
    async with gateway_at(stores[0], desk) as gateway:
        task = (await modern(gateway).call(SLOW))["taskId"]
        async with anyio.create_task_group() as group:
            group.start_soon(gateway.drain, 20)
            with anyio.fail_after(5):
                while gateway.is_ready:
                    await checkpoint()
            assert gateway.busy == 1
            desk.go_on.set()
    record = await stored(stores[1], task)
    assert record is not None
    assert record.status == "completed"


@pytest.mark.parametrize("is_drained", [True, False])
async def test_a_gateway_that_stops_says_what_was_lost(
    stores: list[Store], is_drained: bool
) -> None:
    desk = SlowDesk()
    async with (
        hub(memory("desk", desk.bench)) as it,
        Gateway(it, GatewayOptions(**AT_ONCE), store=stores[0]) as gateway,
    ):
        task = (await modern(gateway).call(SLOW))["taskId"]
        if is_drained:
            await gateway.drain(0)
    record = await stored(stores[1], task)
    assert record is not None
    assert record.failure is not None
    assert "look before you repeat it" in record.failure.message
