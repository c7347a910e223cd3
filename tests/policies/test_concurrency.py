import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from pegboard import (
    Concurrency,
    Deadline,
    QueueFullError,
    Registry,
    ToolTimeoutError,
    WouldDeadlockError,
)


class Gate:
    """A tool that waits until it is opened, and counts who is inside."""

    name = "gate"

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.entered = anyio.Event()
        self.opened = anyio.Event()

    async def call(self, arguments: dict[str, Any]) -> int:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.entered.set()
        try:
            await self.opened.wait()
        finally:
            self.inside -= 1
        return self.most


@pytest.mark.covers("R-SAGE-40")
async def test_no_more_calls_run_at_once_than_allowed_and_the_rest_wait() -> None:
    gate = Gate()
    registry = Registry(concurrency=Concurrency(3, queue=20))
    registry.register(gate)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(registry.acall, "gate")
            await gate.entered.wait()
            await anyio.wait_all_tasks_blocked()
            assert gate.inside == 3
            gate.opened.set()
    assert gate.most == 3


@pytest.mark.covers("R-SAGE-40")
async def test_a_full_queue_refuses_at_once_and_says_so() -> None:
    gate = Gate()
    registry = Registry(concurrency=Concurrency(1, queue=1))
    registry.register(gate)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(registry.acall, "gate")
            tasks.start_soon(registry.acall, "gate")
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(QueueFullError) as full:
                await registry.acall("gate")
            assert (full.value.limit, full.value.queue, full.value.sent) == (1, 1, False)
            gate.opened.set()


async def test_a_cancelled_waiter_leaves_no_slot_behind() -> None:
    gate = Gate()
    registry = Registry(concurrency=Concurrency(1, queue=5))
    registry.register(gate)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(registry.acall, "gate")
            await gate.entered.wait()
            async with anyio.create_task_group() as waiting:
                for _ in range(5):
                    waiting.start_soon(registry.acall, "gate")
                await anyio.wait_all_tasks_blocked()
                waiting.cancel_scope.cancel()
            gate.opened.set()
        # All five slots in the queue and the one at the gate are free again.
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(registry.acall, "gate")
    assert gate.most == 1


async def test_a_cancelled_or_late_call_frees_its_slot() -> None:
    gate = Gate()
    registry = Registry(concurrency=Concurrency(1, queue=0), deadline=Deadline(0.01))
    registry.register(gate)
    for _ in range(3):
        with pytest.raises(ToolTimeoutError):
            await registry.acall("gate")


async def test_waiting_for_a_slot_counts_towards_the_deadline() -> None:
    gate = Gate()
    slots = Concurrency(1)
    registry = Registry(concurrency=slots)
    registry.register(gate)
    registry.register(Named("late"), deadline=Deadline(0.01))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(registry.acall, "gate")
            await gate.entered.wait()
            with pytest.raises(ToolTimeoutError, match="was not started") as late:
                await registry.acall("late")
            assert not late.value.sent
            gate.opened.set()


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def call(self, arguments: dict[str, Any]) -> str:
        return self.name


async def test_a_tool_that_calls_a_tool_does_not_wait_for_itself() -> None:
    registry = Registry(concurrency=Concurrency(1))

    async def outer() -> object:
        return await registry.acall("inner")

    def outer_in_thread() -> object:
        return registry.call("inner")

    registry.register_many([outer, outer_in_thread, Named("inner")])
    with anyio.fail_after(5):
        assert await registry.acall("outer") == "inner"
        assert await registry.acall("outer_in_thread") == "inner"
        assert registry.call("outer_in_thread") == "inner"


def test_threads_and_event_loops_share_the_slots() -> None:
    both_inside = threading.Barrier(2)
    inside: list[int] = []

    def tool() -> None:
        inside.append(1)
        # Two are let in together; a third one would be seen here.
        both_inside.wait(5)
        assert len(inside) <= 2
        both_inside.wait(5)
        inside.pop()

    registry = Registry(concurrency=Concurrency(2))
    registry.register(tool)

    def use(number: int) -> None:
        if number % 2:
            anyio.run(registry.acall, "tool")
        else:
            registry.call("tool")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(20)))


async def test_a_blocking_call_that_would_wait_for_its_own_loop_is_refused() -> None:
    gate = Gate()
    registry = Registry(concurrency=Concurrency(1))
    registry.register(gate)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(registry.acall, "gate")
            await gate.entered.wait()
            with pytest.raises(WouldDeadlockError):
                registry.call("gate")
            gate.opened.set()


async def test_a_task_left_behind_by_a_tool_has_no_slot_of_its_own() -> None:
    registry = Registry(concurrency=Concurrency(1))
    go, inside, most = anyio.Event(), list[int](), list[int]()

    async def count() -> None:
        inside.append(1)
        most.append(len(inside))
        await checkpoint()
        inside.pop()

    async def later() -> None:
        await go.wait()
        async with anyio.create_task_group() as crowd:
            for _ in range(10):
                crowd.start_soon(registry.acall, "count")

    async with anyio.create_task_group() as outer:

        async def leave_behind() -> None:
            outer.start_soon(later)

        registry.register_many([count, leave_behind])
        await registry.acall("leave_behind")
        go.set()
    assert max(most) == 1


def test_a_slot_survives_a_loop_that_is_closed_with_calls_in_flight() -> None:
    registry = Registry(concurrency=Concurrency(1))

    async def forever() -> None:
        await anyio.sleep_forever()

    registry.register(forever)
    registry.register(Named("after"))
    work = registry.acall("forever")

    async def begin() -> None:
        with anyio.move_on_after(0):
            await work

    anyio.run(begin)
    work.close()
    assert registry.call("after") == "after"


async def test_a_storm_of_cancellations_leaks_no_slot() -> None:
    slots = Concurrency(3, queue=1000)
    registry = Registry(concurrency=slots)
    chance = random.Random(7)

    async def work() -> None:
        for _ in range(chance.randrange(3)):
            await checkpoint()

    registry.register(work)

    async def use() -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as pair:
                pair.start_soon(registry.acall, "work")
                for _ in range(chance.randrange(5)):
                    await checkpoint()
                if chance.random() < 0.5:
                    scope.cancel()

    with anyio.fail_after(15):
        async with anyio.create_task_group() as tasks:
            for _ in range(900):
                tasks.start_soon(use)
        # All slots are free: as many calls as slots run at once, and no call waits.
        for _ in range(4):
            await registry.acall("work")
    assert not slots._slots  # pyright: ignore[reportPrivateUsage]
    assert not slots._waiting  # pyright: ignore[reportPrivateUsage]
    assert slots._granted == 0  # pyright: ignore[reportPrivateUsage]


async def test_a_tool_can_have_slots_of_its_own() -> None:
    gate = Gate()
    registry = Registry()
    registry.register(gate, concurrency=Concurrency(1, queue=0))
    registry.register(Named("free"))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(registry.acall, "gate")
            await gate.entered.wait()
            with pytest.raises(QueueFullError):
                await registry.acall("gate")
            assert await registry.acall("free") == "free"
            gate.opened.set()


@pytest.mark.parametrize(("limit", "queue"), [(0, 1), (1, -1)])
def test_settings_that_make_no_sense_are_refused(limit: int, queue: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        Concurrency(limit, queue=queue)
