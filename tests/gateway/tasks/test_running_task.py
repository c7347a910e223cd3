"""Questions that the gateway that had a task has left open."""

from typing import Any

import anyio

from pegboard.gateway import Client, ClientRequest
from pegboard.gateway.tasks.record import TaskRecord, new_task_id, written
from pegboard.gateway.tasks.running_task import RunningTask
from pegboard.model.principal import LOCAL
from pegboard.model.task import TaskStatus
from tests.gateway.clients import Wire

METHOD = "elicitation/create"
LEFT: dict[str, Any] = {"message": "Which?"}
SAID = {"action": "accept", "content": {}}


def resumed() -> RunningTask:
    record = TaskRecord(
        id=new_task_id(),
        tenant="default",
        subject="local",
        tool="dig",
        created=0.0,
        updated=0.0,
        ttl=60.0,
        asked=written({"question-2": {"method": METHOD, "params": LEFT}}),
        questions=2,
    )
    client = Client(principal=LOCAL, era="modern", version="2026-07-28", tasks=True)
    request = ClientRequest(method="tools/call", params={}, client=client, channel=Wire())
    running = RunningTask(request, record, patience=5, on_change=lambda _: None)
    running.is_task = True
    return running


async def test_an_answer_is_kept_until_the_server_asks_again() -> None:
    running = resumed()
    assert running.state().status is TaskStatus.INPUT_REQUIRED
    running.take({"question-2": SAID})
    assert running.state().status is TaskStatus.WORKING
    with anyio.fail_after(5):
        assert await running.ask(METHOD, LEFT) == SAID


async def test_another_question_has_a_key_of_its_own() -> None:
    running = resumed()
    async with anyio.create_task_group() as group:
        group.start_soon(running.ask, METHOD, {"message": "Whose?"})
        group.start_soon(running.ask, METHOD, LEFT)
        await anyio.wait_all_tasks_blocked()
        words = {key: it["params"]["message"] for key, it in running.asked.items()}
        assert words == {"question-2": "Which?", "question-3": "Whose?"}
        running.take({"question-2": SAID, "question-3": SAID})
    assert running.state().questions == 3


async def test_a_question_that_the_server_does_not_ask_again_is_closed() -> None:
    running = resumed()
    running.changed(TaskStatus.WORKING, None)
    assert running.asked == {}
    assert running.state().status is TaskStatus.WORKING
