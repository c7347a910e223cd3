"""How many tasks are kept and run, and which one goes first."""

from typing import Any

import anyio
import msgspec
import pytest

from pegboard.gateway import GatewayOptions, RpcError
from pegboard.gateway.tasks.quota import TaskQuota
from pegboard.gateway.tasks.record import TaskRecord, new_task_id
from pegboard.model.principal import Principal
from pegboard.model.task import TaskStatus
from tests.gateway.clients import text_of
from tests.gateway.tasks.slow_calls import (
    LONG,
    SLOW,
    SlowDesk,
    ended,
    gateway_with,
    modern,
)


def task(owner: str, *, size: int = 0, status: TaskStatus = TaskStatus.COMPLETED) -> TaskRecord:
    return TaskRecord(
        id=new_task_id(),
        tenant="default",
        subject=owner,
        tool="t",
        created=0.0,
        updated=0.0,
        ttl=10.0,
        size=size,
        status=status,
    )


def quota(**options: Any) -> TaskQuota:
    return TaskQuota(GatewayOptions(**options), now=lambda: 5.0)


def test_ten_thousand_tasks_are_the_most_and_the_oldest_finished_go_first() -> None:
    kept = quota(tasks_each=20_000)
    made = [task("a") for _ in range(10_000)]
    for it in made:
        assert kept.admit(("default", "a")) == []
        kept.note(it)
    for it in made[:100]:
        assert kept.admit(("default", "a")) == [it.id]
        kept.forget([it.id])
        kept.note(task("a"))
    assert len(kept) == 10_000


def test_a_caller_with_few_tasks_keeps_them() -> None:
    kept = quota(tasks=10)
    mine = [task("a"), task("a")]
    theirs = [task("b") for _ in range(8)]
    for it in (*mine, *theirs):
        kept.note(it)
    assert kept.admit(("default", "a")) == [theirs[0].id]
    assert kept.admit(("default", "c")) == [theirs[0].id]


def test_a_caller_with_too_many_loses_its_own_oldest() -> None:
    kept = quota(tasks_each=2)
    made = [task("a"), task("a"), task("b")]
    for it in made:
        kept.note(it)
    assert kept.admit(("default", "a")) == [made[0].id]
    assert kept.admit(("default", "b")) == []


def test_tasks_that_run_never_give_way() -> None:
    kept = quota(tasks=4, tasks_running=100)
    for _ in range(4):
        kept.begin(task("a", status=TaskStatus.WORKING))
    assert kept.admit(("default", "b")) is None
    assert kept.expired() == []


def test_bytes_are_bounded_too() -> None:
    kept = quota(task_bytes=100)
    made = [task("a", size=40), task("b", size=10), task("a", size=40)]
    for it in made:
        kept.note(it)
    assert kept.make_room(task("c", size=50)) == [made[0].id]
    assert kept.sizes.used == 50


def test_what_other_gateways_did_is_taken_in() -> None:
    kept = quota()
    gone, kept_on = task("a", size=3), task("a", size=4)
    kept.note(gone)
    kept.take_in([kept_on, msgspec.structs.replace(kept_on, id=new_task_id(), subject="b")])
    assert (len(kept), kept.sizes.used) == (2, 8)
    assert kept.kept.held(("default", "a")) == 1


async def test_the_oldest_finished_task_of_a_caller_gives_way() -> None:
    desk = SlowDesk()
    desk.go_on.set()
    async with gateway_with(desk, tasks_each=3) as gateway:
        caller = modern(gateway)
        made: list[str] = []
        for _ in range(4):
            made.append((await caller.call(SLOW))["taskId"])
            await ended(caller, made[-1])
        with anyio.fail_after(5):
            while True:
                try:
                    await caller.send("tasks/get", taskId=made[0])
                except RpcError:
                    break
        for it in made[1:]:
            assert (await caller.send("tasks/get", taskId=it))["status"] == "completed"


async def test_a_call_beyond_the_limit_is_a_plain_one_for_a_modern_client() -> None:
    desk = SlowDesk()
    async with gateway_with(desk, tasks=2) as gateway:
        caller = modern(gateway)
        first = (await caller.call(SLOW))["taskId"]
        other = modern(gateway, principal=Principal(subject="b", scopes=frozenset({"call"})))
        await other.call(SLOW)
        results: list[str] = []

        async def call() -> None:
            results.append(text_of(await caller.call(SLOW)))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            with anyio.fail_after(5):
                while desk.begun < 3:
                    await anyio.lowlevel.checkpoint()
            assert results == []
            desk.go_on.set()
        assert results == ["done"]
        assert (await ended(caller, first))["status"] == "completed"


async def test_results_give_way_to_newer_ones() -> None:
    desk = SlowDesk()
    desk.go_on.set()
    async with gateway_with(desk, task_bytes=25_000) as gateway:
        caller = modern(gateway)
        made: list[str] = []
        for _ in range(3):
            made.append((await caller.call(LONG))["taskId"])
            await ended(caller, made[-1])
        with pytest.raises(RpcError):
            await caller.send("tasks/get", taskId=made[0])
        for it in made[1:]:
            assert (await caller.send("tasks/get", taskId=it))["status"] == "completed"


async def test_the_limits_are_told_to_the_operator() -> None:
    desk = SlowDesk()
    async with gateway_with(desk) as gateway:
        await modern(gateway).call(SLOW)
        used = {it.name: (it.used, it.setting) for it in gateway.limits()}
        assert used["tasks"] == (1, "gateway.tasks")
        assert used["running tasks"] == (1, "gateway.tasks_running")
        assert used["task bytes"] == (0, "gateway.task_bytes")
