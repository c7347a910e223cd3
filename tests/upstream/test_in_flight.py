"""What a server says in the course of calls arrives before their results, however fast it is."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from pegboard.upstream import CallContext
from pegboard.upstream.session.in_flight import (
    MOST_ASKED,
    CallInFlight,
    CallsInFlight,
    UnclaimedRequestError,
)
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
            call.note_progress({"progress": 1.0})
            group.start_soon(call.tell)
            await call.all_told()
            assert notes == [1.0]


async def test_on_a_pipe_a_client_with_several_calls_has_a_log_once() -> None:
    heard: list[tuple[str, object]] = []

    def of(name: str, level: str) -> CallContext:
        def on_log(params: Mapping[str, Any]) -> None:
            heard.append((name, params["data"]))

        return CallContext(on_log=on_log, log_level=level, client="one")

    # On a pipe nothing tells which call a message came with.
    calls = CallsInFlight()

    async def log(level: str, data: int) -> None:
        await logged(calls, {"level": level, "data": data})

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
                call.note_log({"level": "info", "data": number})
                if call.is_waiting:
                    group.start_soon(call.tell)
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            taken.set()
    *told, last = heard
    assert told == list(range(len(told)))
    assert 1000 <= len(told) <= 1001
    words = "Log messages left out, because they came faster than the client read them"
    assert last == f"{words}: {5000 - len(told)}."


async def test_of_a_flood_only_so_many_bytes_wait_for_a_slow_client() -> None:
    heard: list[int] = []
    taken = anyio.Event()
    long = "x" * 50_000

    async def slow(params: Mapping[str, Any]) -> None:
        await taken.wait()
        heard.append(len(str(params["data"])))

    async def slowly(_: float, __: float | None, message: str | None) -> None:
        await taken.wait()
        heard.append(len(message or ""))

    for context in (CallContext(on_log=slow), CallContext(on_progress=slowly)):
        heard.clear()
        taken = anyio.Event()
        with CallInFlight(context, CallsInFlight()) as call:
            async with anyio.create_task_group() as group:
                for number in range(1000):
                    call.note_log({"level": "info", "data": long})
                    call.note_progress({"progress": number, "message": long})
                    if call.is_waiting:
                        group.start_soon(call.tell)
                taken.set()
            assert call.is_waiting is False
            # What was left out is forgotten when there is room again.
            call.note_log({"level": "info", "data": "the end"})
            call.note_progress({"progress": 1000, "message": "the end"})
            await call.all_told()
        assert 16 * 50_000 < sum(heard) < 40 * 50_000
        assert heard[-1] == len("the end")


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
                call.note_progress({"progress": number})
                if call.is_waiting:
                    group.start_soon(call.tell)
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            taken.set()
        await progressed(call, 5000.0)
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
            group.start_soon(progressed, call, 1.0)
            await is_slow.wait()
            await logged(calls, {"level": "info", "data": "two"})
            await logged(calls, {"level": "info", "data": "three"}, call)
            await progressed(call, 4.0)
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
            group.start_soon(progressed, call, 1.0)
            await is_slow.wait()
            await progressed(call, 2.0)
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
    with CallInFlight(two, calls) as call:
        assert calls.owners() is None
        assert calls.owners(call) == [call]
        await logged(calls, {"level": "info", "data": "of the first"})
        assert heard == []
    with CallInFlight(CallContext(client="one"), calls) as call:
        assert calls.owners() == [call]


async def test_a_cancelled_call_that_is_answered_after_all_stands_in_no_ones_way() -> None:
    calls = CallsInFlight()
    with anyio.CancelScope() as scope:
        with CallInFlight(CallContext(client="one"), calls) as cancelled:
            cancelled.number = 7
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    with CallInFlight(CallContext(client="two"), calls) as call:
        assert calls.owners() is None
        calls.answered_late(8)
        assert calls.owners() is None
        calls.answered_late(7)
        assert calls.owners() == [call]


async def test_a_client_is_asked_over_its_newest_call_that_still_reaches_it() -> None:
    calls = CallsInFlight()
    gone = CallContext(client="one", is_reachable=lambda: False)
    with (
        CallInFlight(CallContext(client="one"), calls) as older,
        CallInFlight(gone, calls) as newest,
    ):
        assert await calls.asking_call() is older
        assert await calls.asking_call(newest) is newest


async def test_a_server_may_be_made_to_wait_before_notes_are_left_out() -> None:
    heard: list[object] = []

    async def slow(params: Mapping[str, Any]) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(params["data"])

    with CallInFlight(CallContext(on_log=slow), CallsInFlight()) as call:
        for number in range(5000):
            call.note_log({"level": "info", "data": number})
            if call.is_behind:
                await call.catch_up()
        await call.all_told()
    assert heard == list(range(5000))


async def progressed(call: CallInFlight, done: float) -> None:
    """Do what a session does with progress."""
    call.note_progress({"progress": done})
    await call.tell()


async def logged(
    calls: CallsInFlight, params: Mapping[str, Any], came_with: CallInFlight | None = None
) -> None:
    """Do what a session does with a log message."""
    call = calls.note_log(params, came_with)
    if call is not None:
        await call.tell()


@pytest.mark.parametrize("progress", ["1", None, [], 10**400])
async def test_progress_that_is_no_number_is_ignored(progress: object) -> None:
    told: list[float] = []
    context = CallContext(on_progress=lambda done, _, __: told.append(done))
    with CallInFlight(context, None) as call:
        call.note_progress({"progress": progress})
        call.note_progress({"progress": 1, "total": 10**400})
        await call.all_told()
    assert told == [1.0]


class CountedClient(str):
    """The key of a client, which counts how often it is looked at."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        CountedClient.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


async def test_whose_a_message_may_be_is_told_without_a_look_at_every_call() -> None:
    calls = CallsInFlight()
    contexts = [CallContext(client=CountedClient(f"client {it % 2}")) for it in range(600)]
    running = [CallInFlight(it, calls) for it in contexts]
    for it in running:
        calls.add(it)

    async def ask() -> None:
        with pytest.raises(UnclaimedRequestError):
            await calls.asking_call()

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        CountedClient.looks = 0
        for it in running[:100]:
            calls.discard(it, answered=True)
        # Each of the waiting questions is told of each answer: 10,000 times.
        assert CountedClient.looks < 10 * 10_000
        calls.discard(running[-1], answered=False)


async def test_of_many_calls_that_want_no_log_only_the_newest_are_asked() -> None:
    heard: list[object] = []
    wanting = CallContext(on_log=lambda params: heard.append(params["data"]), client="one")
    calls = CallsInFlight()
    with CallInFlight(wanting, calls):
        deaf = [CallInFlight(CallContext(client="one"), calls) for _ in range(MOST_ASKED)]
        for it in deaf[1:]:
            calls.add(it)
        await logged(calls, {"level": "info", "data": "heard"})
        calls.add(deaf[0])
        assert calls.note_log({"level": "info", "data": "not heard"}) is None
    assert heard == ["heard"]
