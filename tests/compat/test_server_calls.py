"""Work that tasks of several event loops share."""

import threading
from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.lowlevel
import pytest

from pegboard.compat.server_calls import Turns, in_background
from pegboard.errors import WouldDeadlockError
from pegboard.registry.background_loop import on_background_loop, run_in_background


async def test_work_is_done_on_the_background_loop_and_only_once_sent_there() -> None:
    async def where() -> bool:
        return on_background_loop()

    async def twice() -> bool:
        return await in_background(where)

    assert not on_background_loop()
    assert await in_background(twice)


async def test_tasks_take_turns_in_the_order_they_came() -> None:
    turns, order = Turns(), list[int]()

    async def go(number: int) -> None:
        async with turns.next():
            order.append(number)
            await anyio.lowlevel.checkpoint()
            order.append(number)

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(go, number)
    assert order == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


async def test_who_gives_up_waiting_does_not_hold_up_the_next() -> None:
    turns, release = Turns(), anyio.Event()
    reached: list[str] = []

    async def hold() -> None:
        async with turns.next():
            await release.wait()

    async def follow(name: str) -> None:
        async with turns.next():
            reached.append(name)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as impatient:
                impatient.start_soon(follow, "impatient")
                await anyio.wait_all_tasks_blocked()
                group.start_soon(follow, "patient")
                await anyio.wait_all_tasks_blocked()
                impatient.cancel_scope.cancel()
            release.set()
    assert reached == ["patient"]


async def test_a_turn_that_ends_badly_is_over() -> None:
    turns = Turns()
    with pytest.raises(LookupError):
        async with turns.next():
            raise LookupError
    with anyio.fail_after(5):
        async with turns.next():
            pass


def test_loops_take_turns() -> None:
    turns, together = Turns(), threading.Barrier(4)
    inside: list[int] = []
    most: list[int] = []

    def run(number: int) -> None:
        async def go() -> None:
            with anyio.fail_after(10):
                for _ in range(50):
                    async with turns.next():
                        inside.append(number)
                        await anyio.lowlevel.checkpoint()
                        most.append(len(inside))
                        inside.remove(number)

        together.wait(5)
        anyio.run(go)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    assert most == [1] * 200


async def test_a_turn_of_a_loop_that_the_caller_blocks_is_refused() -> None:
    turns = Turns()

    async def wait_for_a_turn() -> None:
        async with turns.next(tool="echo"):
            pass

    async with turns.next():
        with pytest.raises(WouldDeadlockError):
            run_in_background(wait_for_a_turn, tool="echo")
    run_in_background(wait_for_a_turn, tool="echo")
