import asyncio  # noqa: TID251 - a second event loop is the matter
import gc
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.to_thread
import pytest

from pegboard import NotConnectedError
from pegboard.upstream.owner_loop import OwnerLoop


async def test_any_task_may_open_and_close_it_any_number_of_times() -> None:
    owner_loop = OwnerLoop("test")
    async with anyio.create_task_group() as group:
        group.start_soon(owner_loop.open)
    await owner_loop.open()
    assert owner_loop.is_open
    async with anyio.create_task_group() as group:
        group.start_soon(owner_loop.close)
        group.start_soon(owner_loop.close)
    await owner_loop.close()
    assert not owner_loop.is_open
    await owner_loop.open()
    assert owner_loop.is_open
    await owner_loop.close()


async def test_closing_waits_until_everything_has_ended() -> None:
    owner_loop = OwnerLoop("test")
    await owner_loop.open()
    started, ended = anyio.Event(), False

    async def work() -> None:
        nonlocal ended
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            ended = True

    owner_loop.start_soon(work)
    await started.wait()
    await owner_loop.close()
    assert ended


async def test_one_failing_task_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    owner_loop = OwnerLoop("test")
    await owner_loop.open()
    done = anyio.Event()

    async def fail() -> None:
        raise ValueError("mine alone")

    async def work() -> None:
        await anyio.lowlevel.checkpoint()
        done.set()

    with caplog.at_level(logging.ERROR):
        owner_loop.start_soon(fail)
        owner_loop.start_soon(work)
        with anyio.fail_after(5):
            await done.wait()
    assert owner_loop.is_open
    (record,) = caplog.records
    assert record.message.startswith("task_failed: ")
    await owner_loop.close()


async def test_work_from_another_loop_is_done_at_home() -> None:
    owner_loop = OwnerLoop("test")
    await owner_loop.open()

    async def where() -> int:
        return threading.get_ident()

    async def ask_from_afar() -> int:
        assert not owner_loop.is_current()
        return await owner_loop.run(where)

    assert owner_loop.is_current()
    home = await anyio.to_thread.run_sync(lambda: asyncio.run(ask_from_afar()))
    assert home == threading.get_ident()
    await owner_loop.close()


def test_a_closed_loop_is_an_error_in_words() -> None:
    owner_loop = OwnerLoop("test")
    asyncio.run(owner_loop.open())

    async def nothing() -> None:
        return None

    async def use() -> None:
        with pytest.raises(NotConnectedError, match="event loop"):
            await owner_loop.run(nothing)
        await owner_loop.close()

    asyncio.run(use())


async def test_opening_at_the_same_time_starts_one_task() -> None:
    owner_loop = OwnerLoop("only one")
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(owner_loop.open)
    tasks = [task.get_name() for task in asyncio.all_tasks()]
    assert tasks.count("pegboard only one") == 1
    await owner_loop.close()


def test_opening_from_two_event_loops_at_once_makes_one_of_them_home() -> None:
    owner_loop = OwnerLoop("test")
    both, done = threading.Barrier(2), threading.Barrier(2)

    async def open_it() -> bool:
        both.wait(5)
        await owner_loop.open()
        home = owner_loop.is_current()
        # At home the loop must go on until the other has been served.
        await anyio.to_thread.run_sync(done.wait, 5)
        return home

    with ThreadPoolExecutor(2) as threads:
        homes = list(threads.map(lambda _: asyncio.run(open_it()), range(2)))
    assert sorted(homes) == [False, True]


@pytest.mark.parametrize(
    ("failure", "told"), [(NotConnectedError("Closed.", server="x"), 0), (KeyError("own"), 1)]
)
async def test_a_failure_that_nobody_waits_for_is_told_only_if_it_is_none_of_ours(
    failure: Exception, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    owner_loop = OwnerLoop("test")
    await owner_loop.open()
    begun, left, ended = anyio.Event(), anyio.Event(), anyio.Event()

    async def fail() -> None:
        begun.set()
        await left.wait()
        ended.set()
        raise failure

    async with anyio.create_task_group() as group:
        group.start_soon(owner_loop.run_to_end, fail)
        await begun.wait()
        group.cancel_scope.cancel()
    left.set()
    await ended.wait()
    await owner_loop.close()
    gc.collect()
    assert len(caplog.records) == told
