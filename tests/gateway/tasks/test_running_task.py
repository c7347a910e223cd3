"""The state of a call that runs as a task."""

from typing import Any

import anyio

from pegboard.gateway import Client, ClientRequest
from pegboard.gateway.tasks.record import TaskRecord, new_task_id
from pegboard.gateway.tasks.running_task import RunningTask
from pegboard.model.principal import LOCAL
from tests.gateway.clients import Wire


async def test_all_questions_of_a_result_are_one_change() -> None:
    client = Client(principal=LOCAL, era="modern", version="2026-07-28")
    request = ClientRequest(method="tools/call", params={}, client=client, channel=Wire())
    record = TaskRecord(
        id=new_task_id(), tenant="default", subject="", tool="t", created=0, updated=0, ttl=60
    )
    asked: list[int] = []
    running = RunningTask(
        request, record, patience=5, on_change=lambda it: asked.append(len(it.asked))
    )
    running.is_task = True
    answers: dict[str, Any] = {}

    async def ask() -> None:
        questions = {f"k{it}": {"method": "roots/list"} for it in range(100)}
        answers.update(await running.ask_all(questions))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        running.take({key: {"roots": []} for key in running.asked})
    assert answers == {f"k{it}": {"roots": []} for it in range(100)}
    assert asked == [100, 0]
