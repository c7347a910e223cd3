"""Tasks on every wire and surface, in both eras of clients and servers, and in real sessions."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client import ClientExtension, NotificationBinding
from pydantic import ValidationError

from tests.gateway.tasks.test_server_tasks import TOOLS, before
from tests.journeys.faces import FaceName, client_of
from tests.journeys.journey import text_of
from tests.journeys.test_extensions import SURFACES, WIRES, Peer, peer_of
from tests.upstream.servers.task_server import TaskServer
from tests.upstream.tasks.serving import DONE, WORKING

HAS_TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
FORM = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}
QUESTION = {"method": "elicitation/create", "params": FORM}
RELATED = "io.modelcontextprotocol/related-task"
server_eras = pytest.mark.parametrize("server_era", ["modern", "handshake"])
faces = pytest.mark.parametrize("face", ["stream", "http"])


def completed(server_era: str) -> dict[str, Any]:
    return DONE if server_era == "modern" else {"status": "completed"}


def call_of(surface: str, tool: str, script: dict[str, Any]) -> dict[str, Any]:
    if surface == "full":
        return {"name": f"mcp_it_{tool}", "arguments": script}
    return {"name": "call_tool", "arguments": {"name": f"mcp_it_{tool}", "arguments": script}}


async def ask(peer: Peer, method: str, **params: Any) -> dict[str, Any]:
    response = await peer.ask(method, HAS_TASKS, **params)
    assert "error" not in response, response
    return response["result"]


@server_eras
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_client_of_each_era_has_the_task_of_a_server_of_each_era(
    wire: str, surface: str, server_era: str
) -> None:
    server = TaskServer(server_era)
    async with before(server, server_era) as gateway, peer_of(gateway, wire, surface) as peer:
        with anyio.fail_after(20):
            script: dict[str, Any] = {"states": [WORKING, WORKING, completed(server_era)]}
            call = call_of(surface, TOOLS[server_era], script)
            if wire.endswith("modern"):
                task = await ask(peer, "tools/call", **call)
                assert task["resultType"] == "task"
                found = task
                while found["status"] == "working":
                    found = await ask(peer, "tasks/get", taskId=task["taskId"])
                assert found["status"] == "completed"
                result = found["result"]
            else:
                task = (await ask(peer, "tools/call", **call, task={}))["task"]
                result = await ask(peer, "tasks/result", taskId=task["taskId"])
                assert result["_meta"][RELATED] == {"taskId": task["taskId"]}
                [listed] = (await ask(peer, "tasks/list"))["tasks"]
                assert (listed["taskId"], listed["status"]) == (task["taskId"], "completed")
            assert result["content"][0]["text"] == "done"
            assert task["taskId"] != "task-1"
            assert server.asked("tasks/get"), "the server made a task of the call, too"


@server_eras
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_client_without_tasks_gets_the_result_of_the_task_of_a_server(
    wire: str, surface: str, server_era: str
) -> None:
    server = TaskServer(server_era)
    tool = "go" if server_era == "modern" else "must"
    async with before(server, server_era) as gateway, peer_of(gateway, wire, surface) as peer:
        with anyio.fail_after(20):
            script: dict[str, Any] = {"states": [WORKING, completed(server_era)]}
            said = await peer.ask("tools/call", {}, **call_of(surface, tool, script))
            assert said["result"]["content"][0]["text"] == "done"
            assert server.asked("tasks/get")


async def begun(client: Client, tool: str, **script: Any) -> str:
    params = types.CallToolRequestParams(
        name=f"mcp_it_{tool}", arguments=script, task=types.TaskMetadata(ttl=60_000)
    )
    # The SDK sends the wish, but takes no task for the result of a call.
    with pytest.raises(ValidationError):
        await client.session.send_request(
            types.CallToolRequest(params=params), types.CreateTaskResult
        )
    listed = await client.session.send_request(types.ListTasksRequest(), types.ListTasksResult)
    [task] = listed.tasks
    assert task.ttl == 60_000
    return task.task_id


async def result_of(client: Client, task: str) -> types.CallToolResult:
    request = types.GetTaskPayloadRequest(params=types.GetTaskPayloadRequestParams(task_id=task))
    return await client.session.send_request(request, types.CallToolResult)


async def state_of(client: Client, task: str) -> str:
    request = types.GetTaskRequest(params=types.GetTaskRequestParams(task_id=task))
    return (await client.session.send_request(request, types.GetTaskResult)).status


class Listening(ClientExtension):
    """Hears of tasks; the SDK itself drops what it is told of them."""

    identifier = "com.example/listening"

    def __init__(
        self, note: Callable[[types.TaskStatusNotificationParams], Awaitable[None]]
    ) -> None:
        self._note = note

    def notifications(self) -> list[NotificationBinding[Any]]:
        binding = NotificationBinding(
            method="notifications/tasks/status",
            params_type=types.TaskStatusNotificationParams,
            handler=self._note,
        )
        return [binding]


@faces
@server_eras
async def test_a_session_is_told_that_its_task_has_ended(face: FaceName, server_era: str) -> None:
    server = TaskServer(server_era)
    told: list[types.TaskStatusNotificationParams] = []
    has_ended = anyio.Event()

    async def note(params: types.TaskStatusNotificationParams) -> None:
        told.append(params)
        if params.status == "completed":
            has_ended.set()

    async with (
        before(server, server_era) as gateway,
        client_of(gateway, face, "legacy", extensions=[Listening(note)]) as client,
    ):
        with anyio.fail_after(20):
            script: list[dict[str, Any]] = [*[WORKING] * 3, completed(server_era)]
            task = await begun(client, TOOLS[server_era], states=script)
            await has_ended.wait()
            assert {it.task_id for it in told} == {task}
            assert await state_of(client, task) == "completed"
            assert text_of(await result_of(client, task)) == "done"


@faces
@server_eras
async def test_a_session_is_asked_in_the_middle_of_its_task(
    face: FaceName, server_era: str
) -> None:
    server = TaskServer(server_era)
    asked: list[types.ElicitRequestParams] = []

    async def accept(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={})

    wants: dict[str, Any] = {"status": "input_required"}
    script: dict[str, Any] = {"question": QUESTION}
    if server_era == "modern":
        wants, script = {**wants, "inputRequests": {"a": QUESTION}}, {}
    async with (
        before(server, server_era) as gateway,
        client_of(gateway, face, "legacy", elicitation_callback=accept) as client,
    ):
        with anyio.fail_after(20):
            task = await begun(client, TOOLS[server_era], states=[wants], **script)
            result = text_of(await result_of(client, task))
            assert '"accept"' in result
            [params] = asked
            assert params.message == "Which?"
            assert (params.meta or {})[RELATED] == {"taskId": task}


@faces
@server_eras
async def test_a_session_cancels_its_task_at_the_server(face: FaceName, server_era: str) -> None:
    server = TaskServer(server_era)
    async with (
        before(server, server_era) as gateway,
        client_of(gateway, face, "legacy") as client,
    ):
        with anyio.fail_after(20):
            task = await begun(client, TOOLS[server_era], states=[WORKING])
            while not server.asked("tasks/get"):
                await anyio.lowlevel.checkpoint()
            params = types.CancelTaskRequestParams(task_id=task)
            cancelled = await client.session.send_request(
                types.CancelTaskRequest(params=params), types.CancelTaskResult
            )
            assert cancelled.status == "cancelled"
            while not server.asked("tasks/cancel"):
                await anyio.lowlevel.checkpoint()
            with pytest.raises(MCPError):
                await result_of(client, task)
