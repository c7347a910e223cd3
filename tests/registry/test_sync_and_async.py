import asyncio  # noqa: TID251 - what a tool may do to a loop
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint

from pegboard import Concurrency, Deadline, Registry, Retry, WouldDeadlockError, tool
from pegboard.registry.threads import LIMIT

city: ContextVar[str] = ContextVar("city", default="nowhere")


def where() -> tuple[str, str]:
    return threading.current_thread().name, city.get()


async def awhere() -> tuple[str, str]:
    await checkpoint()
    return where()


class Where:
    name = "object"

    async def call(self, arguments: dict[str, Any]) -> tuple[str, str]:
        return await awhere()


class Begins:
    """Synchronous, but what it returns has to be awaited."""

    name = "begins"

    def call(self, arguments: dict[str, Any]) -> Any:
        return awhere()


def board() -> Registry:
    registry = Registry()
    registry.register_many([where, awhere, Where(), Begins()])
    return registry


NAMES = ["where", "awhere", "object", "begins"]


@pytest.mark.parametrize("name", NAMES)
def test_call_works_without_an_event_loop(name: str) -> None:
    city.set("Oslo")
    thread, seen = board().call(name)
    assert seen == "Oslo"
    assert (thread == threading.current_thread().name) == (name == "where")


@pytest.mark.covers("R-SAGE-39")
@pytest.mark.parametrize("name", NAMES)
async def test_call_and_acall_work_inside_a_running_loop(name: str) -> None:
    city.set("Oslo")
    registry = board()
    thread, seen = await registry.acall(name)
    assert seen == "Oslo"
    assert (thread == threading.current_thread().name) == (name != "where")
    assert registry.call(name)[1] == "Oslo"


async def test_a_synchronous_tool_does_not_block_the_event_loop() -> None:
    started, release = threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        assert release.wait(5)
        return "done"

    registry = Registry()
    registry.register(slow)
    answers: list[str] = []

    async def call() -> None:
        answers.append(await registry.acall("slow"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            # The loop is free: this task goes on while the tool is inside its thread.
            await to_thread.run_sync(started.wait)
            release.set()
    assert answers == ["done"]


@pytest.mark.parametrize(
    "policies",
    [{}, {"deadline": Deadline(30)}, {"retry": Retry()}, {"concurrency": Concurrency(4)}],
    ids=str,
)
def test_many_threads_call_at_once(policies: Any) -> None:
    registry = Registry(**policies)

    def double(n: int) -> int:
        return n * 2

    async def adouble(n: int) -> int:
        await checkpoint()
        return n * 2

    registry.register_many([double, adouble])

    def use(n: int) -> tuple[int, int]:
        return registry.call("double", {"n": n}), registry.call("adouble", {"n": n})

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(use, range(200))) == [(2 * n, 2 * n) for n in range(200)]


def test_a_call_that_would_deadlock_is_refused_in_words() -> None:
    registry = Registry()

    async def inner() -> str:
        return "inner"

    async def outer() -> str:
        return registry.call("inner")

    registry.register_many([inner, outer])
    with pytest.raises(WouldDeadlockError, match=r"registry\.acall") as refused:
        registry.call("outer")
    assert refused.value.tool == "inner"
    assert registry.call("inner") == "inner"


def test_tools_may_call_tools_in_any_mixture() -> None:
    registry = Registry(deadline=Deadline(10))

    def sync_leaf() -> str:
        return "leaf"

    async def async_middle() -> str:
        return await registry.acall("sync_leaf")

    def sync_top() -> str:
        return registry.call("async_middle")

    registry.register_many([sync_leaf, async_middle, sync_top])
    assert registry.call("sync_top") == "leaf"


async def test_more_nested_synchronous_calls_than_threads_do_not_block_each_other() -> None:
    registry = Registry(deadline=Deadline(15))
    inside = threading.Barrier(LIMIT)

    def leaf() -> int:
        return 1

    def top() -> int:
        inside.wait(10)
        return registry.call("leaf")

    registry.register_many([leaf, top])
    answers: list[int] = []

    async def call() -> None:
        answers.append(await registry.acall("top"))

    async with anyio.create_task_group() as tasks:
        for _ in range(LIMIT):
            tasks.start_soon(call)
    assert answers == [1] * LIMIT


async def test_more_calls_than_threads_wait_and_all_finish() -> None:
    registry = Registry()
    lock = threading.Lock()
    threads: set[int] = set()

    def work(n: int) -> int:
        with lock:
            threads.add(threading.get_ident())
        return n

    registry.register(work)
    answers: list[int] = []

    async def call(n: int) -> None:
        answers.append(await registry.acall("work", {"n": n}))

    async with anyio.create_task_group() as tasks:
        for number in range(500):
            tasks.start_soon(call, number)
    assert sorted(answers) == list(range(500))
    assert len(threads) <= LIMIT


async def test_abandoned_tools_do_not_use_up_the_threads() -> None:
    release = threading.Event()

    def stuck() -> None:
        release.wait(60)

    def fine() -> str:
        return "fine"

    registry = Registry()
    registry.register(stuck)
    registry.register(fine)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(registry.acall, "stuck")
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert await registry.acall("fine") == "fine"
    release.set()


async def test_a_call_cancelled_before_its_thread_began_never_runs() -> None:
    release, ran = threading.Event(), list[int]()

    def stuck() -> None:
        release.wait(60)

    def late() -> None:
        ran.append(1)

    registry = Registry()
    registry.register_many([stuck, late])
    async with anyio.create_task_group() as tasks:
        for _ in range(LIMIT):
            tasks.start_soon(registry.acall, "stuck")
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.01):
            await registry.acall("late")
        release.set()
    assert ran == []


class Abort(BaseException):
    pass


@pytest.mark.parametrize("error", [Abort, SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_base_exception_reaches_the_caller_and_ends_nothing_else(
    kind: str, error: type[BaseException]
) -> None:
    def sync() -> None:
        raise error

    async def asynchronous() -> None:
        raise error

    registry = Registry()
    registry.register(tool(name="bad")(sync if kind == "sync" else asynchronous))
    registry.register(awhere)
    with pytest.raises(error):
        registry.call("bad")
    # With a deadline even the synchronous one runs on the background loop.
    registry.register(tool(name="limited")(sync), deadline=Deadline(5))
    with pytest.raises(error):
        registry.call("limited")
    assert registry.call("awhere")


async def test_a_stop_iteration_does_not_hang_its_caller() -> None:
    def stops() -> None:
        raise StopIteration

    registry = Registry()
    registry.register(stops)
    with anyio.fail_after(5):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await registry.acall("stops")
        with pytest.raises(RuntimeError, match="StopIteration"):
            registry.call("stops")


async def test_cancelling_half_way_reaches_the_tool_and_loses_nothing() -> None:
    started, cleaned = anyio.Event(), list[str]()

    async def stuck() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.append("up")

    registry = Registry()
    registry.register(stuck)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(registry.acall, "stuck")
            await started.wait()
            tasks.cancel_scope.cancel()
    assert cleaned == ["up"]
    assert list(registry) == ["stuck"]


def test_interrupting_a_blocking_call_cancels_its_tool() -> None:
    code = """
import signal, threading, anyio
from pegboard import Registry
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background jobs
cancelled = threading.Event()
async def stuck() -> None:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    try:
        await anyio.sleep_forever()
    finally:
        cancelled.set()
registry = Registry()
registry.register(stuck)
try:
    registry.call("stuck")
except KeyboardInterrupt:
    assert cancelled.wait(5)
    print("interrupted")
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=15, check=True
    )
    assert run.stdout == "interrupted\n"


def test_the_background_loop_outlives_what_tools_leave_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = Registry()

    async def vandal() -> None:
        async def explode() -> None:
            raise SystemExit

        loop = asyncio.get_running_loop()
        left_behind.append(loop.create_task(explode()))
        loop.call_soon(loop.stop)

    left_behind: list[asyncio.Task[None]] = []
    registry.register_many([vandal, awhere])
    registry.call("vandal")
    assert registry.call("awhere")
    assert "background_loop_interrupted" in caplog.text
    assert isinstance(left_behind[0].exception(), SystemExit)


async def test_a_synchronous_tool_may_run_an_event_loop_of_its_own() -> None:
    # Also beside sniffio, which many packages bring and through which anyio knows of the loop.
    registry = Registry()

    @registry.tool
    def work() -> int:
        async def inner() -> int:
            return 3

        return anyio.run(inner)

    assert await registry.acall(work.__name__) == 3
