"""What a server says in the course of calls arrives before their results, however fast it is."""

from collections.abc import Mapping
from contextvars import copy_context
from typing import Any

import anyio
import pytest

from pegboard.upstream import CallContext
from pegboard.upstream.session.in_flight import CallInFlight, CallsInFlight
from tests.upstream.board_servers import hub_of, script


async def test_parallel_calls_to_a_process_that_answers_at_once_get_all_their_notes() -> None:
    async with hub_of(script("light")) as hub:
        await hub.start()

        async def progress() -> None:
            for _ in range(10):
                steps: list[float] = []
                add = steps.append
                await hub.call(
                    "mcp_light_progress",
                    {"n": 5},
                    on_progress=lambda done, *_, add=add: add(done),
                )
                assert steps == [1.0, 2.0, 3.0, 4.0, 5.0]

        async with anyio.create_task_group() as group:
            for _ in range(16):
                group.start_soon(progress)


async def test_a_note_that_only_waits_to_be_given_comes_before_the_result() -> None:
    notes: list[float] = []
    context = CallContext(on_progress=lambda done, *_: notes.append(done))
    with CallInFlight(context, None) as call:
        async with anyio.create_task_group() as group:
            group.start_soon(call.progressed, 1.0, None, None)
            await call.all_told()
            assert notes == [1.0]


async def test_on_a_pipe_a_client_with_several_calls_has_a_log_once() -> None:
    heard: list[tuple[str, object]] = []

    def of(name: str, level: str) -> CallContext:
        def on_log(params: Mapping[str, Any]) -> None:
            heard.append((name, params["data"]))

        return CallContext(on_log=on_log, log_level=level, client="one")

    # On a pipe nothing tells which call a message came with.
    calls, reader = CallsInFlight(), copy_context()

    async def log(level: str, data: int) -> None:
        async with anyio.create_task_group() as group:
            reader.run(group.start_soon, calls.log, {"level": level, "data": data})

    with CallInFlight(of("first", "info"), calls):
        deaf = CallContext(client="one")
        with CallInFlight(of("second", "error"), calls), CallInFlight(deaf, calls):
            await log("error", 1)
            await log("info", 2)
        await log("error", 3)
    assert heard == [("second", 1), ("first", 2), ("first", 3)]


async def test_of_a_flood_only_so_many_notes_wait_for_a_slow_client() -> None:
    heard: list[object] = []
    taken = anyio.Event()

    async def slow(params: Mapping[str, Any]) -> None:
        await taken.wait()
        heard.append(params["data"])

    with CallInFlight(CallContext(on_log=slow), CallsInFlight()) as call:
        async with anyio.create_task_group() as group:
            for number in range(5000):
                group.start_soon(call.logged, {"level": "info", "data": number})
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            taken.set()
    *told, last = heard
    assert told == list(range(len(told)))
    assert 1000 <= len(told) <= 1001
    words = "Log messages left out, because they came faster than the client read them"
    assert last == f"{words}: {5000 - len(told)}."


@pytest.mark.parametrize("level", [None, "debug", "error"])
async def test_that_messages_are_left_out_is_told_at_a_level_that_is_listened_to(
    level: str | None,
) -> None:
    heard: list[Mapping[str, Any]] = []
    with CallInFlight(CallContext(on_log=heard.append, log_level=level), CallsInFlight()) as call:
        for number in range(1001):
            call.note_log({"level": "critical", "data": number})
        await call.all_told()
    assert heard[-1]["level"] == ("error" if level == "error" else "warning")


async def test_of_a_flood_of_progress_a_slow_client_is_told_the_newest() -> None:
    steps: list[float] = []
    taken = anyio.Event()

    async def slow(done: float, *_: object) -> None:
        await taken.wait()
        steps.append(done)

    with CallInFlight(CallContext(on_progress=slow), None) as call:
        async with anyio.create_task_group() as group:
            for number in range(5000):
                group.start_soon(call.progressed, float(number), None, None)
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            taken.set()
        await call.progressed(5000.0, None, None)
    assert steps[-2:] == [4999.0, 5000.0]
    assert steps == sorted(steps)
    assert len(steps) <= 1003


async def test_no_task_waits_while_a_slow_client_is_told_and_no_note_is_lost() -> None:
    heard: list[object] = []
    calls, is_slow, taken = CallsInFlight(), anyio.Event(), anyio.Event()

    async def slow(note: object) -> None:
        is_slow.set()
        await taken.wait()
        heard.append(note)

    async def on_log(params: Mapping[str, Any]) -> None:
        await slow(params["data"])

    async def on_progress(done: float, *_: object) -> None:
        await slow(done)

    context = CallContext(on_log=on_log, on_progress=on_progress)
    with anyio.fail_after(5), CallInFlight(context, calls) as call:
        async with anyio.create_task_group() as group:
            group.start_soon(call.progressed, 1.0, None, None)
            await is_slow.wait()
            await calls.log({"level": "info", "data": "two"})
            await call.logged({"level": "info", "data": "three"})
            await call.progressed(4.0, None, None)
            taken.set()
            await call.all_told()
            assert heard == [1.0, "two", "three", 4.0]


async def test_what_waits_when_the_one_who_tells_is_stopped_is_told_before_the_result() -> None:
    heard: list[object] = []
    is_slow = anyio.Event()

    async def on_progress(done: float, *_: object) -> None:
        if done == 1.0:
            is_slow.set()
            await anyio.sleep_forever()
        heard.append(done)

    with anyio.fail_after(5), CallInFlight(CallContext(on_progress=on_progress), None) as call:
        async with anyio.create_task_group() as group:
            group.start_soon(call.progressed, 1.0, None, None)
            await is_slow.wait()
            await call.progressed(2.0, None, None)
            group.cancel_scope.cancel()
        await call.all_told()
    assert heard == [2.0]


async def test_what_a_server_says_of_a_call_that_was_given_up_reaches_no_other_client() -> None:
    heard: list[object] = []
    calls = CallsInFlight()
    one, two = CallContext(client="one"), CallContext(client="two", on_log=heard.append)
    with anyio.CancelScope() as scope:
        with CallInFlight(one, calls):
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    # On a pipe nothing tells which call a message came with.
    reader = copy_context()
    with CallInFlight(two, calls):
        assert reader.run(calls.owners) is None
        async with anyio.create_task_group() as group:
            reader.run(group.start_soon, calls.log, {"level": "info", "data": "of the first"})
        assert heard == []
    with CallInFlight(CallContext(client="one"), calls) as call:
        assert reader.run(calls.owners) == [call]
