"""Work that keeps the event loop busy is counted with its place; waiting is not."""

import inspect
import logging
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import FunctionType
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest

from pegboard.auth import AnonymousAuthenticator
from pegboard.server import App, ServeOptions, Serving, open_serving
from pegboard.server.http.authentication import HttpAuthenticator
from pegboard.server.process.loop_watchdog import LoopWatchdog, WatchedEventLoop, line_of, place_of
from tests.server.serving import modern_headers, modern_request, served


@asynccontextmanager
async def gateway(**settings: Any) -> AsyncGenerator[tuple[Serving, str]]:
    """Give a gateway as `pegboard serve` assembles it, and its address."""
    config = {"mcpServers": {}, "gateway": settings}
    async with open_serving(ServeOptions(config=config)) as serving:
        await serving.startup.run()
        app = App(serving.pipeline, authenticator=HttpAuthenticator(AnonymousAuthenticator()))
        async with served(app) as address:
            yield serving, address


async def call(address: str, tool: str) -> None:
    request = modern_request("tools/call", {"name": tool, "arguments": {}})
    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.post(
            f"{address}/mcp-full", json=request, headers=modern_headers(request)
        )
    assert answer.json()["result"]["content"][0]["text"] == "done"


async def stalls_of(serving: Serving) -> dict[str, float]:
    page = (await serving.pipeline.metrics.page()).decode()
    found = re.findall(r'pegboard_loop_stalls_total\{place="([^"]*)"\} (\S+)', page)
    return {place: float(count) for place, count in found}


def burn_until(is_done: Callable[[], bool]) -> None:
    """Use the CPU, for 30 seconds at most."""
    ends = time.thread_time() + 30
    while not is_done() and time.thread_time() < ends:
        sum(range(1000))


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "pegboard.server")
    return lambda: [it.message for it in caplog.records if "loop_stall" in it.message]


async def test_a_tool_that_burns_cpu_on_the_loop_is_counted_with_its_place_and_logged_once(
    logged: Callable[[], list[str]],
) -> None:
    async with gateway(loop_stall_seconds=0.1) as (serving, address):
        stalls = serving.pipeline.metrics.stalls
        calls = 0

        async def burns() -> str:
            """Keep the loop busy until the watchdog has noticed it."""
            nonlocal calls
            calls += 1
            burn_until(
                lambda: any(it.endswith(".burns") and stalls[it] == calls for it in list(stalls))
            )
            return "done"

        serving.hub.registry.register(burns)
        await call(address, "burns")
        await call(address, "burns")
        found = await stalls_of(serving)
    # The client of this test takes its time, too.
    [place] = [it for it in found if it.endswith(".burns")]
    assert found[place] == 2
    assert place.startswith("pegboard.")
    assert len([it for it in logged() if place in it]) == 1


async def test_waiting_without_cpu_time_is_no_stall() -> None:
    async with gateway(loop_stall_seconds=0.1) as (serving, address):

        async def waits() -> str:
            """Block the loop without work."""
            threading.Event().wait(0.3)
            return "done"

        serving.hub.registry.register(waits)
        await call(address, "waits")
        assert not [it for it in await stalls_of(serving) if __name__ in it]


async def test_the_watchdog_can_be_switched_off() -> None:
    async with gateway(loop_stall_seconds=0):
        names = [it.name for it in threading.enumerate()]
    assert names.count("loop-watchdog") == 1  # that of the test itself


def test_a_stretch_right_after_a_long_poll_is_noticed_although_the_watchdog_slept() -> None:
    places: list[str] = []
    loop = WatchedEventLoop()
    watchdog = LoopWatchdog(loop, seconds=0.05, on_stall=lambda it: places.append(place_of(it)))
    watchdog.start()

    def wait_until_it_sleeps() -> None:
        ends = time.monotonic() + 5
        while not loop.polls.asleep and time.monotonic() < ends:
            threading.Event().wait(0.005)

    async def wait_and_burn() -> None:
        await loop.run_in_executor(None, wait_until_it_sleeps)
        places.clear()
        burn_until(lambda: bool(places))

    try:
        loop.run_until_complete(wait_and_burn())
    finally:
        watchdog.stop()
        loop.close()
    assert places


def test_many_short_stretches_are_no_stall() -> None:
    places: list[str] = []
    loop = WatchedEventLoop()
    watchdog = LoopWatchdog(loop, seconds=0.1, on_stall=lambda it: places.append(place_of(it)))
    watchdog.start()

    async def work() -> None:
        for _ in range(20):
            ends = time.thread_time() + 0.02
            burn_until(lambda ends=ends: time.thread_time() > ends)
            await anyio.lowlevel.checkpoint()

    try:
        loop.run_until_complete(work())
    finally:
        watchdog.stop()
        loop.close()
    assert places == []


def test_a_frame_without_a_line_has_the_first_of_its_function() -> None:
    def here() -> Any:
        return inspect.currentframe()

    code = here.__code__.replace(co_linetable=b"")
    frame = FunctionType(code, globals())()
    assert frame.f_lineno is None
    assert line_of(frame) == code.co_firstlineno
