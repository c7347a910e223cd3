"""Tasks of the handshake era: when a call asks for one, and what the server sends about it."""

from typing import Any

import anyio
import pytest

from pegboard import Timeouts
from pegboard.upstream import CallContext
from pegboard.upstream.tasks import poll_pace
from tests.upstream.board_servers import hub_of
from tests.upstream.servers.task_server import TaskServer
from tests.upstream.tasks.serving import WORKING, Watcher, call, hosted, stdio

COMPLETED = {"status": "completed"}


@pytest.mark.parametrize(
    ("tool", "has_watcher", "is_asked_for"),
    [
        ("go", True, False),
        ("may", False, False),
        ("may", True, True),
        ("must", False, True),
        ("must", True, True),
    ],
)
async def test_a_call_asks_for_a_task_if_the_tool_needs_one_or_a_watcher_wants_one(
    tool: str, has_watcher: bool, is_asked_for: bool
) -> None:
    timeouts = Timeouts(task=120)
    async with hosted("handshake", timeouts=timeouts) as (hub, server):
        context = CallContext(task=Watcher()) if has_watcher else None
        result = await call(hub, WORKING, COMPLETED, tool=tool, context=context)
        [params] = server.tasks.asked("tools/call")
        assert params.get("task") == ({"ttl": 120_000} if is_asked_for else None)
        assert result.text() == ("done" if is_asked_for or tool == "go" else "plain")


@pytest.mark.parametrize("offered", [None, {}, {"requests": {}}, {"requests": {"tools": {}}}])
async def test_a_server_that_offers_no_tasks_is_not_asked_for_one(offered: Any) -> None:
    tasks = TaskServer("handshake")
    tasks.capabilities["tasks"] = offered
    async with hosted("handshake", tasks) as (hub, server):
        assert (await call(hub, WORKING, tool="must")).text() == "plain"
        assert "task" not in server.tasks.asked("tools/call")[0]


async def test_a_modern_server_is_never_asked_for_a_task() -> None:
    async with hosted("modern") as (hub, server):
        await call(hub, WORKING, tool="must", context=CallContext(task=Watcher()))
        assert "task" not in server.tasks.asked("tools/call")[0]


async def test_progress_that_a_server_sends_during_a_task_reaches_the_client() -> None:
    async with hub_of(stdio("handshake")) as hub:
        heard: list[Any] = []
        context = CallContext(on_progress=lambda *told: heard.append(told))
        states = [{**WORKING, "progress": it} for it in (10, 20)]
        # Its own progress replaces the one that its messages would be.
        said = {**WORKING, "statusMessage": "nearly"}
        with anyio.fail_after(20):
            await call(hub, *states, said, COMPLETED, context=context)
        assert heard == [(10.0, None, None), (20.0, None, None)]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first pauses be as long as the server wants them."""
    monkeypatch.setattr(poll_pace, "FIRST_PAUSE", 30.0)


@pytest.mark.usefixtures("patient")
async def test_a_server_that_says_that_a_task_has_changed_is_asked_at_once() -> None:
    async with hub_of(stdio("handshake")) as hub:
        note = {"method": "notifications/tasks/status", "params": {"taskId": "TASK"}}
        # Without it, the next poll would be after half a minute.
        said = {**WORKING, "pollIntervalMs": 30_000, "says": [note]}
        with anyio.fail_after(20):
            assert (await call(hub, said, COMPLETED)).text() == "done"


@pytest.mark.usefixtures("patient")
async def test_a_result_that_is_waited_for_counts_before_the_next_poll() -> None:
    async with hub_of(stdio("handshake")) as hub:
        asking = {"status": "input_required", "pollIntervalMs": 30_000}
        with anyio.fail_after(20):
            assert (await call(hub, asking)).text() == "done"


async def test_a_server_is_not_idle_while_it_works_on_a_task() -> None:
    timeouts = Timeouts(idle=0.1)
    async with hub_of(stdio("handshake", timeouts=timeouts)) as hub:
        slow = {**WORKING, "pollIntervalMs": 300}
        with anyio.fail_after(20):
            assert (await call(hub, slow, slow, COMPLETED, task=slow)).text() == "done"
        assert hub.servers["it"].starts == 1


async def test_a_task_stays_in_one_session_where_each_call_has_its_own() -> None:
    tasks = TaskServer("handshake")
    async with hosted("handshake", tasks, keeps_sessions=True, stateless=True) as (hub, server):
        assert (await call(hub)).text() == "plain"
        calls = server.sessions
        assert (await call(hub, WORKING, WORKING, COMPLETED, tool="must")).text() == "done"
        assert server.sessions == calls
        heads = [it.lower() for it in server.heads[-4:]]
        assert len({it.partition("mcp-session-id: ")[2].split()[0] for it in heads}) == 1
