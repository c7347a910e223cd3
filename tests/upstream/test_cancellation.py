"""A caller who leaves: the server is told, in the way of its era and transport."""

from functools import partial
from pathlib import Path

import anyio
import pytest

from pegboard.hub import Hub
from tests.upstream.board_servers import hub_of, until
from tests.upstream.talkative import ERAS, call, script, talkative


async def leave_in_mid_call(hub: Hub, is_running: object) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(partial(call, hub, "wait", client="one"))
        await until(is_running)  # pyright: ignore[reportArgumentType]
        group.cancel_scope.cancel()


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_a_server_is_told_when_a_caller_leaves(transport: str, era: str) -> None:
    async with talkative(transport, era) as (hub, server):
        await leave_in_mid_call(hub, lambda: server.waiting)
        with anyio.fail_after(5):
            await server.cancelled.wait()
        server.go_on.set()
        assert (await call(hub, "wait")).text() == "wait"
        assert hub.servers["talk"].starts == 1


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_process_is_told_when_a_caller_leaves(era: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with hub_of(script(notes, protocol=ERAS[era])) as hub:
        pid = (await call(hub, "pid")).text()
        await leave_in_mid_call(hub, lambda: hub.server("talk").connection.in_flight)
        await until(notes.exists)
        assert (await call(hub, "pid")).text() == pid
