"""What a server asks in the middle of a task is answered by the client of its call, once."""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from pegboard import ProtocolError, Timeouts
from pegboard.upstream import CallContext, Questions
from tests.upstream.board_servers import hub_of, until
from tests.upstream.tasks.serving import WORKING, Watcher, call, hosted, serving, stdio

NAME = {"type": "object", "properties": {"name": {"type": "string"}}}


def form(message: str) -> dict[str, Any]:
    params = {"message": message, "requestedSchema": NAME}
    return {"method": "elicitation/create", "params": params}


def asking(**questions: Any) -> dict[str, Any]:
    return {"status": "input_required", "inputRequests": questions}


def accepted(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


class Person:
    """Answers with a name, and keeps what was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []
        self.may_answer = anyio.Event()
        self.may_answer.set()

    async def answer(self, _: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append(params["message"])
        await self.may_answer.wait()
        return accepted(self.name)

    def context(self, **fields: Any) -> CallContext:
        return CallContext(questions=Questions(elicitation=self.answer), client=self.name, **fields)


@pytest.mark.parametrize("wire", ["memory", "http", "stdio"])
async def test_a_question_of_a_task_is_asked_once_however_often_it_is_polled(wire: str) -> None:
    async with serving(wire, "modern") as (hub, _):
        ann = Person("Ann")
        ann.may_answer = anyio.Event()
        watcher = Watcher()
        results: list[Any] = []

        async def called() -> None:
            states = [WORKING, *[asking(who=form("Who?"))] * 5]
            results.append(await call(hub, *states, context=ann.context(task=watcher)))

        async with anyio.create_task_group() as group:
            group.start_soon(called)
            await until(lambda: ann.asked)
            ann.may_answer.set()
        assert ann.asked == ["Who?"]
        assert json.loads(results[0].text()) == {"who": accepted("Ann")}
        assert [it.value for it, _ in watcher.changes] == ["working", "input_required"]


async def test_the_handlers_of_the_hub_answer_where_the_call_has_none() -> None:
    ann = Person("Ann")
    async with serving("memory", "modern") as (hub, _):
        config = hub.server("it").config
    async with hub_of(config, elicitation=ann.answer) as hub:
        result = await call(hub, asking(who=form("Who?"), you=form("And you?")))
        assert json.loads(result.text()) == {"who": accepted("Ann"), "you": accepted("Ann")}


async def test_the_time_of_a_person_does_not_count_towards_the_limit_of_a_task() -> None:
    timeouts = Timeouts(connect=10, list=10, call=10, task=0.3)
    async with serving("memory", "modern", timeouts=timeouts) as (hub, tasks):
        ann, results = Person("Ann"), list[Any]()
        ann.may_answer = anyio.Event()

        async def called() -> None:
            results.append(await call(hub, asking(who=form("Who?")), context=ann.context()))

        async with anyio.create_task_group() as group:
            group.start_soon(called)
            await until(lambda: ann.asked)
            began = anyio.current_time()
            await until(lambda: anyio.current_time() > began + 2 * timeouts.task)
            assert tasks.asked("tasks/cancel") == []
            ann.may_answer.set()
        assert json.loads(results[0].text()) == {"who": accepted("Ann")}


@pytest.mark.parametrize("wire", ["http", "stdio"])
async def test_an_update_that_the_server_refuses_ends_the_call(wire: str) -> None:
    async with serving(wire, "modern") as (hub, tasks):
        refusal = {"code": -32602, "message": "Not a name"}
        with pytest.raises(Exception, match="Not a name"):
            await call(
                hub,
                asking(who=form("Who?")),
                context=Person("Ann").context(),
                update_error=refusal,
            )
        if wire == "http":
            await until(lambda: tasks.asked("tasks/cancel"))


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([asking(who={"method": "tools/call", "params": {}})], "its method is unknown"),
        ([asking(who=form("x" * 70_000))], "65536 bytes"),
        ([asking(**{f"q{it}": form("Who?") for it in range(101)})], "more than 100 inputs"),
        ([asking(who=form("Who?")), asking(who=form("Your card?"))], "for two questions"),
        ([{"status": "input_required", "inputRequests": ["who"]}], "no task"),
        ([asking(who={"method": "sampling/createMessage", "params": {}})], "No client is there"),
    ],
)
async def test_a_question_that_cannot_be_asked_ends_the_call_and_the_task(
    states: list[dict[str, Any]], words: str
) -> None:
    async with hosted("modern") as (hub, server):
        ann = Person("Ann")
        ann.may_answer = anyio.Event()
        with pytest.raises(ProtocolError, match=words):
            await call(hub, *states, context=ann.context())
        await until(lambda: server.tasks.asked("tasks/cancel"))
        assert ann.asked in ([], ["Who?"])


async def test_a_task_that_ends_while_a_person_thinks_does_not_wait_for_the_person() -> None:
    async with serving("memory", "modern") as (hub, _):
        ann = Person("Ann")
        ann.may_answer = anyio.Event()
        over = {"status": "completed", "result": {"content": [{"type": "text", "text": "anyway"}]}}
        result = await call(hub, asking(who=form("Who?")), WORKING, over, context=ann.context())
        assert result.text() == "anyway"


ASKING = {"status": "input_required"}


@pytest.mark.parametrize("wire", ["http", "stdio"])
async def test_a_core_task_asks_while_its_result_is_waited_for(wire: str) -> None:
    async with serving(wire, "handshake", relays_questions=True) as (hub, _):
        ann, bob, watcher = Person("Ann"), Person("Bob"), Watcher()
        # A call of another client is under way, whose client must not be asked.
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: call(hub, WORKING, context=bob.context(task=watcher)))
            with anyio.fail_after(20):
                await watcher.has_started.wait()
                result = await call(hub, ASKING, context=ann.context(), question=form("Who?"))
            assert json.loads(result.text())["content"] == {"name": "Ann"}
            group.cancel_scope.cancel()
        assert (ann.asked, bob.asked) == (["Who?"], [])


async def test_a_question_of_a_task_that_is_not_known_reaches_no_client() -> None:
    async with hub_of(stdio("handshake"), relays_questions=True) as hub:
        ann = Person("Ann")
        related = {"io.modelcontextprotocol/related-task": {"taskId": "of-another"}}
        question = form("Your password?")
        question["params"]["_meta"] = related
        said = {**WORKING, "says": [{"id": "stray", **question}]}
        with anyio.fail_after(20):
            states = [said, WORKING, WORKING, {"status": "completed"}]
            result = await call(hub, *states, context=ann.context(), tells_answers=True)
        [refused] = json.loads(result.text())
        assert (refused["id"], refused["error"]["code"]) == ("stray", -32602)
        assert ann.asked == []


async def test_a_question_that_names_the_task_is_answered_between_two_polls() -> None:
    async with hub_of(stdio("handshake"), relays_questions=True) as hub:
        ann = Person("Ann")
        question = form("Who?")
        question["params"]["_meta"] = {"io.modelcontextprotocol/related-task": {"taskId": "TASK"}}
        said = {**WORKING, "says": [{"id": "mid", **question}]}
        with anyio.fail_after(20):
            states = [said, WORKING, WORKING, {"status": "completed"}]
            result = await call(hub, *states, context=ann.context(), tells_answers=True)
        [answered] = json.loads(result.text())
        assert answered["result"]["content"] == {"name": "Ann"}
        assert ann.asked == ["Who?"]


async def test_a_task_in_no_shape_leaves_the_questions_of_other_clients_alone() -> None:
    async with hub_of(stdio("handshake"), relays_questions=True) as hub:
        ann, bob = Person("Ann"), Person("Bob")
        with pytest.raises(ProtocolError, match="no task"):
            await call(hub, WORKING, task={"status": "odd"}, context=bob.context())
        said = {**WORKING, "says": [{"id": "mid", **form("Who?")}]}
        with anyio.fail_after(20):
            states = [said, WORKING, WORKING, {"status": "completed"}]
            result = await call(hub, *states, context=ann.context(), tells_answers=True)
        [answered] = json.loads(result.text())
        assert answered["result"]["content"] == {"name": "Ann"}
        assert (ann.asked, bob.asked) == (["Who?"], [])
