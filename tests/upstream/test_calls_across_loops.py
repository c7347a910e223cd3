"""Work for an event loop that ends, or is blocked, while another waits for it."""

import asyncio  # noqa: TID251 - event loops are the matter
import threading
from collections.abc import Generator
from contextlib import contextmanager

import anyio
import pytest

from pegboard import ConnectionLostError, NotConnectedError, ToolTimeoutError
from pegboard.upstream import owner_loop
from pegboard.upstream.owner_loop import OwnerLoop


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_loop, "ROUND", 0.02)


class Home:
    """An event loop in a thread of its own, with a owner_loop on it."""

    def __init__(self) -> None:
        self.owner_loop = OwnerLoop("home")
        self.ready, self.leave = threading.Event(), threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def live(self) -> None:
        self.loop = asyncio.get_running_loop()
        await self.owner_loop.open()
        self.ready.set()
        while not self.leave.is_set():  # noqa: ASYNC110 - the other loop says so
            await anyio.sleep(0.005)

    def run(self, ending: str) -> None:
        if ending == "cancels":
            asyncio.run(self.live())
            return
        loop = asyncio.new_event_loop()
        loop.run_until_complete(self.live())
        if ending == "closes":
            for task in asyncio.all_tasks(loop):
                # So that nothing complains of tasks that are forgotten, as they are here.
                task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue]
            loop.close()


@contextmanager
def home_that(ending: str) -> Generator[Home]:
    home = Home()
    thread = threading.Thread(target=home.run, args=(ending,))
    thread.start()
    assert home.ready.wait(5)
    try:
        yield home
    finally:
        home.leave.set()
        thread.join(5)
        if home.loop is not None and not home.loop.is_closed():
            home.loop.run_until_complete(home.owner_loop.close())
            home.loop.close()


@pytest.mark.parametrize("ending", ["cancels", "stops", "closes"])
def test_work_is_lost_and_not_cancelled_when_its_loop_ends(ending: str) -> None:
    with home_that(ending) as home:

        async def work() -> None:
            home.leave.set()
            await anyio.sleep_forever()

        async def wait_for_it() -> None:
            with anyio.fail_after(5), pytest.raises(ConnectionLostError) as caught:
                await home.owner_loop.run(work)
            assert caught.value.sent

        asyncio.run(wait_for_it())


def test_a_loop_that_has_ended_before_does_nothing() -> None:
    with home_that("cancels") as home:
        home.leave.set()

    async def work() -> None:
        raise AssertionError

    async def use() -> None:
        with pytest.raises(NotConnectedError) as caught:
            await home.owner_loop.run(work)
        assert not caught.value.sent

    asyncio.run(use())


def test_a_blocked_loop_does_not_hold_its_callers_beyond_their_limit() -> None:
    with home_that("stops") as home:
        blocked, release = threading.Event(), threading.Event()

        def block() -> None:
            blocked.set()
            release.wait(10)

        async def work() -> None:
            await anyio.sleep_forever()

        async def wait_for_it() -> None:
            assert home.loop is not None
            home.loop.call_soon_threadsafe(block)
            blocked.wait(5)
            with anyio.fail_after(5), pytest.raises(ToolTimeoutError):
                await home.owner_loop.run(work, tool="slow", limit=0.1)

        try:
            asyncio.run(wait_for_it())
        finally:
            release.set()


def test_long_work_on_a_loop_that_is_not_blocked_has_all_the_time() -> None:
    with home_that("stops") as home:
        rounds = 0

        async def work() -> str:
            nonlocal rounds
            while rounds < 60:
                rounds += 1
                await anyio.sleep(0.02)
            return "done"

        assert asyncio.run(home.owner_loop.run(work, limit=1)) == "done"


def test_a_caller_who_is_cancelled_cancels_the_work() -> None:
    with home_that("stops") as home:
        begun, cancelled = threading.Event(), threading.Event()

        async def work() -> None:
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()

        async def give_up() -> None:
            waiting = asyncio.create_task(home.owner_loop.run(work))
            while not begun.is_set():  # noqa: ASYNC110 - the other loop says so
                await anyio.sleep(0.005)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        asyncio.run(give_up())
        assert cancelled.wait(5)
