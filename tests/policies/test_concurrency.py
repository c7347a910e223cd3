import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from pegboard import Concurrency, Deadline, QueueFullError, Registry, ToolTimeoutError


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


async def test_a_cancelled_waiter_leaves_no_place_behind() -> None:
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
        # All five places in the queue and the one at the gate are free again.
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(registry.acall, "gate")
    assert gate.most == 1


async def test_a_cancelled_or_late_call_frees_its_place() -> None:
    gate = Gate()
    registry = Registry(concurrency=Concurrency(1, queue=0), deadline=Deadline(0.01))
    registry.register(gate)
    for _ in range(3):
        with pytest.raises(ToolTimeoutError):
            await registry.acall("gate")


async def test_waiting_for_a_place_counts_towards_the_deadline() -> None:
    gate = Gate()
    places = Concurrency(1)
    registry = Registry(concurrency=places)
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


def test_threads_and_event_loops_share_the_places() -> None:
    lock = threading.Lock()
    inside = most = 0

    def tool() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        with lock:
            inside -= 1

    registry = Registry(concurrency=Concurrency(2))
    registry.register(tool)

    def use(number: int) -> None:
        if number % 2:
            anyio.run(registry.acall, "tool")
        else:
            registry.call("tool")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(40)))
    assert 1 <= most <= 2


def test_a_tool_can_have_places_of_its_own() -> None:
    registry = Registry()
    registry.register(Named("alone"), concurrency=Concurrency(1))
    assert registry.call("alone") == "alone"


@pytest.mark.parametrize(("limit", "queue"), [(0, 1), (1, -1)])
def test_settings_that_make_no_sense_are_refused(limit: int, queue: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        Concurrency(limit, queue=queue)
