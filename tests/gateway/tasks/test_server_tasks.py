"""Tasks of servers through the gateway: each era of a client, before each era of a server."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint

from pegboard.config import ServerConfig
from pegboard.gateway import Gateway, GatewayOptions, RpcError
from pegboard.gateway.tasks.table import TaskTable
from pegboard.model.task import TaskStatus
from pegboard.observe.call_reporter import CallReporter
from pegboard.storage import Store, open_store
from tests.gateway.app_servers import PAGE, SHOWS
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import hub
from tests.gateway.tasks.slow_calls import became, ended, handshake, modern
from tests.upstream.hosted import listening
from tests.upstream.servers.task_server import TaskServer
from tests.upstream.tasks.serving import DONE, PROTOCOLS, WORKING, HostedTasks

if TYPE_CHECKING:
    from pegboard.model import CallRecord

ERAS = ["modern", "handshake"]
eras = pytest.mark.parametrize("era", ERAS)
OPTIONS = GatewayOptions(task_lease=0.3)


@asynccontextmanager
async def before(
    tasks: TaskServer, era: str, store: Store | None = None, **options: Any
) -> AsyncGenerator[Gateway]:
    async with listening(HostedTasks(tasks)) as server:
        config = ServerConfig(
            name="it", transport="streamable_http", url=server.url, protocol=PROTOCOLS[era]
        )
        async with hub(config) as it, Gateway(it, OPTIONS, store=store, **options) as gateway:
            yield gateway
            await gateway.drain(0)


async def made_by(caller: Caller, tool: str, **script: Any) -> str:
    """Return the task that a client gets of a call."""
    params: dict[str, Any] = {"name": f"mcp_it_{tool}", "arguments": script}
    if caller.client.era == "legacy":
        return (await caller.send("tools/call", **params, task={}))["task"]["taskId"]
    made = await caller.send("tools/call", **params)
    assert made["resultType"] == "task"
    return made["taskId"]


async def fetched(caller: Caller, task: str) -> dict[str, Any]:
    if caller.client.era == "legacy":
        return await caller.send("tasks/result", taskId=task)
    return (await ended(caller, task))["result"]


@pytest.fixture(params=ERAS)
def client(request: pytest.FixtureRequest) -> Any:
    """Make a client of each era that can have tasks."""
    return modern if request.param == "modern" else handshake


TOOLS = {"modern": "go", "handshake": "may"}


@eras
async def test_a_task_of_a_server_is_a_task_of_the_gateway(client: Any, era: str) -> None:
    server = TaskServer(era)
    async with before(server, era) as gateway:
        caller = client(gateway)
        said = {"status": "working", "statusMessage": "half way"}
        script = {"states": [WORKING, said, DONE if era == "modern" else {"status": "completed"}]}
        task = await made_by(caller, TOOLS[era], **script)
        assert task not in server.__dict__["_tasks"]
        assert text_of(await fetched(caller, task)) == "done"
        for message in (await caller.send("tasks/get", taskId=task)).values():
            assert "task-1" not in str(message)


@eras
async def test_a_client_without_tasks_gets_the_result(era: str) -> None:
    server = TaskServer(era)
    async with before(server, era) as gateway:
        for kind in ("modern", "legacy"):
            caller = Caller(gateway, kind, face=FULL)  # pyright: ignore[reportArgumentType]
            states = [WORKING, DONE if era == "modern" else {"status": "completed"}]
            tool = "go" if era == "modern" else "must"
            assert text_of(await caller.call(f"mcp_it_{tool}", states=states)) == "done"


@eras
async def test_a_task_is_cancelled_at_its_server(client: Any, era: str) -> None:
    server = TaskServer(era)
    async with before(server, era) as gateway:
        caller = client(gateway)
        task = await made_by(caller, TOOLS[era], states=[WORKING])
        with anyio.fail_after(10):
            while not server.asked("tasks/get"):
                await checkpoint()
        await caller.send("tasks/cancel", taskId=task)
        assert (await ended(caller, task))["status"] == "cancelled"
        with anyio.fail_after(10):
            while not server.asked("tasks/cancel"):
                await checkpoint()


async def test_the_inputs_of_a_modern_task_are_questions_of_the_task() -> None:
    server = TaskServer("modern")
    async with before(server, "modern") as gateway:
        caller = modern(gateway, elicitation={})
        task = await made_by(caller, "go", states=[ASKING])
        first, second = (await questions_of(caller, task)).values()
        await caller.send("tasks/update", taskId=task, inputResponses={first: SAID})
        left = await became(caller, task, "input_required")
        assert list(left["inputRequests"]) == [second]
        await caller.send("tasks/update", taskId=task, inputResponses={second: SAID})
        assert (await ended(caller, task))["status"] == "completed"
        [update] = server.asked("tasks/update")
        assert update["inputResponses"] == {"a": SAID, "b": SAID}


@eras
async def test_a_task_that_its_server_forgot_says_so(client: Any, era: str) -> None:
    lost = {"rpc_error": {"code": -32602, "message": "Task not found"}}
    async with before(TaskServer(era), era) as gateway:
        caller = client(gateway)
        task = await made_by(caller, TOOLS[era], states=[WORKING, lost])
        words = text_of(await fetched(caller, task))
        assert "task" in words
        assert "task-1" not in words or caller.client.principal.subject == "local"


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[Store]]:
    with ExitStack() as stack:
        url = f"sqlite://{tmp_path / 'tasks.db'}"
        yield [stack.enter_context(open_store(url)) for _ in range(2)]


@eras
async def test_a_gateway_that_stops_leaves_the_task_to_the_next(
    client: Any, era: str, stores: list[Store]
) -> None:
    server = TaskServer(era)
    done = DONE if era == "modern" else {"status": "completed"}
    async with before(server, era, stores[0]) as gateway:
        task = await made_by(client(gateway), TOOLS[era], states=[*[WORKING] * 8, done])
        with anyio.fail_after(10):
            while (await stored_of(stores[1], task)).upstream is None:
                await checkpoint()
        with anyio.fail_after(20):
            # It does not wait for what goes on without it.
            await gateway.drain(600)
    left = await stored_of(stores[1], task)
    assert (left.runner, left.status) == ("", TaskStatus.WORKING)
    assert server.asked("tasks/cancel") == []
    records: list[CallRecord] = []
    reporter = CallReporter(records.append)
    async with before(server, era, stores[1], reporter=reporter) as gateway:
        assert text_of(await fetched(client(gateway), task)) == "done"
    [record] = records
    assert (record.tool, record.server, record.outcome) == (f"mcp_it_{TOOLS[era]}", "it", "ok")
    assert len(server.asked("tools/call")) == 1


def form(message: str) -> dict[str, Any]:
    params = {"message": message, "requestedSchema": {"type": "object", "properties": {}}}
    return {"method": "elicitation/create", "params": params}


ASKING = {
    "status": "input_required",
    "inputRequests": {"a": form("Which ace?"), "b": form("Which bee?")},
}
SAID = {"action": "accept", "content": {}}


async def questions_of(caller: Caller, task: str) -> dict[str, Any]:
    """Return the questions of a task once both are open, by the words that they have."""
    with anyio.fail_after(20):
        while len((found := await became(caller, task, "input_required"))["inputRequests"]) < 2:
            await checkpoint()
    return {it["params"]["message"]: key for key, it in found["inputRequests"].items()}


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_question_has_one_key_at_all_gateways_and_no_key_has_two_questions(
    stores: list[Store], is_killed: bool
) -> None:
    server = TaskServer("modern")
    async with before(server, "modern", stores[0]) as gateway:
        caller = modern(gateway, elicitation={})
        task = await made_by(caller, "go", states=[ASKING])
        asked = await questions_of(caller, task)
        await caller.send("tasks/update", taskId=task, inputResponses={asked["Which ace?"]: SAID})
        with anyio.fail_after(10):
            while "bee" not in (record := await stored_of(stores[1], task)).asked:
                await checkpoint()
            while "ace" in (record := await stored_of(stores[1], task)).asked:
                await checkpoint()
        await gateway.drain(600)
    if is_killed:
        # The store has what it had then.
        await to_thread.run_sync(TaskTable(stores[1]).save, record)
    async with before(server, "modern", stores[1]) as gateway:
        caller = modern(gateway, elicitation={})
        again = await questions_of(caller, task)
        assert again["Which bee?"] == asked["Which bee?"]
        # That answer never reached the server, and the client would not answer its key twice.
        assert again["Which ace?"] not in asked.values()
        answers = dict.fromkeys(again.values(), SAID)
        await caller.send("tasks/update", taskId=task, inputResponses=answers)
        assert (await ended(caller, task))["status"] == "completed"
    assert [it["inputResponses"] for it in server.asked("tasks/update")] == [{"a": SAID, "b": SAID}]


@eras
async def test_another_replica_takes_the_task_of_a_server_over(
    client: Any, era: str, stores: list[Store]
) -> None:
    server = TaskServer(era)
    done = DONE if era == "modern" else {"status": "completed"}
    async with (
        before(server, era, stores[0]) as leaving,
        before(server, era, stores[1]) as staying,
    ):
        task = await made_by(client(leaving), TOOLS[era], states=[*[WORKING] * 8, done])
        with anyio.fail_after(10):
            while (await stored_of(stores[1], task)).upstream is None:
                await checkpoint()
        assert (await client(staying).send("tasks/get", taskId=task))["status"] == "working"
        await leaving.drain(600)
        assert text_of(await fetched(client(staying), task)) == "done"
    assert len(server.asked("tools/call")) == 1
    assert server.asked("tasks/cancel") == []


async def test_a_task_goes_on_although_the_hub_is_not_open_yet(stores: list[Store]) -> None:
    tasks = TaskServer("modern")
    async with listening(HostedTasks(tasks)) as server:
        config = ServerConfig(
            name="it", transport="streamable_http", url=server.url, protocol=PROTOCOLS["modern"]
        )
        async with hub(config) as it, Gateway(it, OPTIONS, store=stores[0]) as gateway:
            task = await made_by(modern(gateway), "go", states=[*[WORKING] * 8, DONE])
            await gateway.drain(600)
        # As `pegboard serve` does: the hub is opened while clients are served.
        late = hub(config)
        try:
            async with Gateway(late, OPTIONS, store=stores[1]) as gateway:
                assert text_of(await fetched(modern(gateway), task)) == "done"
        finally:
            await late.close()
    assert len(tasks.asked("tools/call")) == 1


@pytest.mark.parametrize("shown_to", [["model", "app"], ["app"]])
async def test_a_task_that_another_gateway_ends_has_its_page(
    shown_to: list[str], stores: list[Store]
) -> None:
    server = TaskServer("modern")
    ui = {"resourceUri": PAGE, "visibility": shown_to}
    server.definitions = [{"name": "go", "inputSchema": {"type": "object"}, "_meta": {"ui": ui}}]
    text = {"type": "text", "text": "done"}
    whole: dict[str, Any] = {"content": [text], "structuredContent": {"rows": ["x" * 9000]}}
    done = {"status": "completed", "result": whole}

    async def begun(gateway: Gateway, *states: dict[str, Any]) -> str:
        return await made_by(host(gateway), "go", states=[*states, done])

    def host(gateway: Gateway) -> Caller:
        return Caller(gateway, tasks=True, **SHOWS)

    async with before(server, "modern", stores[0]) as gateway:
        plain = await fetched(host(gateway), await begun(gateway, WORKING))
        task = await begun(gateway, *[WORKING] * 8)
        with anyio.fail_after(10):
            while (await stored_of(stores[1], task)).upstream is None:
                await checkpoint()
        await gateway.drain(600)
    async with before(server, "modern", stores[1]) as gateway:
        found = await fetched(host(gateway), task)
    assert {**found, "content": 0} == {**plain, "content": 0}
    assert found["structuredContent"] == whole["structuredContent"]
    if "model" in shown_to:
        assert plain["_meta"]["ui"]["resourceUri"] == "ui://it/clock/app.html"


async def stored_of(store: Store, task: str) -> Any:
    found = await to_thread.run_sync(TaskTable(store).load, task)
    assert found is not None
    return found.record


async def test_another_caller_never_reaches_the_task_by_the_id_of_the_server() -> None:
    server = TaskServer("modern")
    async with before(server, "modern") as gateway:
        caller = modern(gateway)
        await made_by(caller, "go", states=[WORKING])
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(RpcError):
                await caller.send(method, taskId="task-1", inputResponses={})
        await gateway.drain(0)
