"""A server that dies in the middle of a task, and one that does not come back."""

from pathlib import Path

import anyio
import pytest

from pegboard import ConnectionLostError, NotConnectedError, TaskLostError, Timeouts
from pegboard.upstream import CallContext
from tests.upstream.board_servers import hub_of, until
from tests.upstream.tasks.serving import DONE, WORKING, Watcher, call, hosted, stdio

FAST = Timeouts(connect=10, list=10, call=0.5)


@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_a_task_that_survives_its_server_is_followed_on_the_next_one(
    era: str, tmp_path: Path
) -> None:
    async with hub_of(stdio(era, tmp_path / "tasks.json")) as hub:
        with anyio.fail_after(30):
            result = await call(hub, WORKING, {"exit": True}, WORKING, DONE)
        assert result.text() == "done"
        assert hub.servers["it"].starts == 2


@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_a_task_that_ends_with_its_server_is_lost(era: str) -> None:
    async with hub_of(stdio(era)) as hub:
        with anyio.fail_after(30), pytest.raises(TaskLostError, match="Task not found") as caught:
            await call(hub, WORKING, {"exit": True}, DONE)
        assert (caught.value.task, caught.value.server) == ("task-1", "it")


async def test_a_server_that_stays_away_is_an_error_that_says_that_the_call_may_have_run() -> None:
    async with hosted("modern", timeouts=FAST) as (hub, server):
        watcher = Watcher()
        async with anyio.create_task_group() as group:

            async def called() -> None:
                with pytest.raises(ConnectionLostError, match="'task-1'") as caught:
                    await call(hub, WORKING, context=CallContext(task=watcher))
                assert caught.value.sent

            group.start_soon(called)
            await watcher.has_started.wait()
            server.hangs_up = True
            await server.close_connections()


async def test_a_poll_without_an_answer_is_sent_again() -> None:
    async with hosted("modern", timeouts=FAST) as (hub, server):
        # The second poll comes after the first one has timed out.
        assert (await call(hub, {"silent": True}, DONE)).text() == "done"
        assert len(server.tasks.asked("tasks/get")) == 2


async def test_a_server_that_is_stopped_on_purpose_is_not_opened_again_for_its_task() -> None:
    async with hub_of(stdio("modern")) as hub:
        watcher = Watcher()
        async with anyio.create_task_group() as group:

            async def called() -> None:
                with pytest.raises((NotConnectedError, ConnectionLostError)) as caught:
                    await call(hub, WORKING, context=CallContext(task=watcher))
                assert caught.value.sent

            group.start_soon(called)
            await watcher.has_started.wait()
            await hub.server("it").stop()
        assert hub.servers["it"].starts == 1


async def test_a_hub_that_closes_ends_the_calls_whose_tasks_go_on() -> None:
    watcher, ended = Watcher(), anyio.Event()
    async with anyio.create_task_group() as group:
        async with hosted("modern") as (hub, _):

            async def called() -> None:
                with pytest.raises((NotConnectedError, ConnectionLostError)):
                    await call(hub, WORKING, context=CallContext(task=watcher))
                ended.set()

            group.start_soon(called)
            await watcher.has_started.wait()
        with anyio.fail_after(20):
            await ended.wait()


async def test_a_server_that_ignores_the_cancelling_delays_no_caller() -> None:
    async with hosted("modern", timeouts=Timeouts(task=0.2)) as (hub, server):
        respond = server.tasks.respond

        def deaf(request: dict[str, object]) -> dict[str, object] | None:
            response = respond(request)
            return None if request.get("method") == "tasks/cancel" else response

        server.tasks.respond = deaf
        with pytest.raises(TimeoutError):
            await call(hub, WORKING)
        await until(lambda: server.tasks.asked("tasks/cancel"))
        assert (await call(hub)).text() == "plain"
