"""What a call brings along to a server, and what comes back to it, in both eras."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import pytest

from pegboard import ProtocolError, ServerConfig, ToolTimeoutError
from pegboard.hub import Hub
from pegboard.upstream import CallContext, QuestionRefusedError, Questions, context_of_call
from pegboard.upstream.session.in_flight import CallsInFlight
from pegboard.upstream.session.request_routing import LARGEST_QUESTION, RequestRouting
from tests.upstream.board_servers import hub_of, limits, until
from tests.upstream.talkative import call, lives_in, script, talkative, under_way

EVERYWHERE = pytest.mark.parametrize(
    ("transport", "era"),
    [("memory", "legacy"), ("memory", "modern"), ("http", "legacy"), ("http", "modern")],
)
MODERN = pytest.mark.parametrize("transport", ["memory", "http"])
OURS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
"""What Pegboard itself can do, for any client."""
OSLO = {"action": "accept", "content": {"city": "Oslo"}}


@EVERYWHERE
async def test_a_question_goes_to_whoever_the_call_is_for(transport: str, era: str) -> None:
    async with talkative(transport, era) as (hub, _):
        result = await call(hub, "ask", questions=lives_in("Oslo"), client="one")
        assert json.loads(result.text()) == OSLO


@MODERN
async def test_a_question_is_passed_on_and_its_answer_comes_with_the_next_call(
    transport: str,
) -> None:
    async with talkative(transport, "modern") as (hub, _):
        told: dict[str, Any] = {
            "capabilities": {"elicitation": {"form": {}}},
            "passes_questions_on": True,
        }
        asked = (await call(hub, "ask", **told)).wire
        assert asked is not None
        assert asked["resultType"] == "input_required"
        assert asked["inputRequests"]["it"]["params"]["message"] == "Which city?"
        params = {"inputResponses": {"it": OSLO}, "requestState": asked["requestState"]}
        assert json.loads((await call(hub, "ask", params=params, **told)).text()) == OSLO


@MODERN
async def test_a_modern_server_is_told_what_the_client_can_do_and_nothing_else_of_it(
    transport: str,
) -> None:
    async with talkative(transport, "modern") as (hub, _):
        own = {"progressToken": 7, "io.modelcontextprotocol/protocolVersion": "2024-11-05"}
        meta = {"traceparent": "00-1-2-00", "example.org/x": {"y": None}, **own}
        capabilities = {"roots": {}, "elicitation": {"url": {}}}
        result = await call(hub, "told", meta=meta, capabilities=capabilities)
        told = json.loads(result.text())
        assert told["io.modelcontextprotocol/clientCapabilities"] == {**capabilities, **OURS}
        assert told["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert told["io.modelcontextprotocol/clientInfo"]["name"] == "pegboard"
        assert (told["traceparent"], told["example.org/x"]) == ("00-1-2-00", {"y": None})
        assert "progressToken" not in told


async def test_a_modern_server_is_told_of_the_kinds_that_a_call_answers() -> None:
    async with talkative("memory", "modern") as (hub, _):
        told = json.loads((await call(hub, "told", questions=lives_in("Oslo"))).text())
        offered = told["io.modelcontextprotocol/clientCapabilities"]
        assert offered == {"elicitation": {"form": {}, "url": {}}, **OURS}
        told = json.loads((await hub.call("mcp_talk_told")).text())
        assert told["io.modelcontextprotocol/clientCapabilities"] == OURS


@EVERYWHERE
async def test_what_a_client_cannot_answer_is_declined_as_the_protocol_says(
    transport: str, era: str
) -> None:
    async with talkative(transport, era) as (hub, _):
        without: dict[str, Any] = {
            "questions": Questions(),
            "capabilities": {"elicitation": {}, "sampling": {}},
        }
        result = await call(hub, "ask", **without)
        assert json.loads(result.text()) == {"action": "cancel"}
        with pytest.raises(ProtocolError, match="No client is there"):
            await call(hub, "model", **without)
        with pytest.raises(ProtocolError, match="No client is there"):
            await call(hub, "where", **without)


@EVERYWHERE
async def test_a_refused_question_reaches_the_server_with_its_code(
    transport: str, era: str
) -> None:
    async def refuse(server: str, params: Mapping[str, Any]) -> None:
        raise QuestionRefusedError(-1, "User rejected it", {"by": "hand"})

    async with talkative(transport, era) as (hub, _):
        with pytest.raises(ProtocolError, match="User rejected it") as caught:
            await call(hub, "model", questions=Questions(sampling=refuse))
        assert caught.value.rpc_code == -1


async def test_over_http_each_of_two_clients_gets_its_own_question() -> None:
    async with talkative("http", "legacy") as (hub, server):
        waits = partial(call, hub, "wait", questions=lives_in("Bergen"), client="one")
        async with under_way(server, waits):
            answers: dict[str, Any] = {}

            async def ask(client: str, city: str) -> None:
                result = await call(hub, "ask", questions=lives_in(city), client=client)
                answers[client] = json.loads(result.text())["content"]["city"]

            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(ask, f"client {number}", f"city {number}")
            assert answers == {f"client {it}": f"city {it}" for it in range(8)}


def unclaimed(hub: Hub) -> int:
    """How many questions wait until it is known whose they are."""
    connection: Any = hub.server("talk").connection
    return len(connection._session._routing.calls._unclaimed)


async def test_on_a_pipe_nobody_is_asked_what_another_client_may_have_caused() -> None:
    asked: list[str] = []

    async def note(server: str, params: Mapping[str, Any]) -> None:
        asked.append(server)

    noting = Questions(elicitation=note)
    async with (
        hub_of(script(protocol="legacy"), relays_questions=True) as hub,
        anyio.create_task_group() as group,
    ):
        group.start_soon(partial(call, hub, "wait", questions=noting, client="one"))
        await until(lambda: hub.server("talk").connection.in_flight)
        async with anyio.create_task_group() as other:
            other.start_soon(partial(call, hub, "ask", questions=noting, client="two"))
            await until(lambda: unclaimed(hub))
            other.cancel_scope.cancel()
        # The client that caused it has gone: the other one must not get its request.
        await until(lambda: not unclaimed(hub))
        assert asked == []
        # Nor is any that comes soon: the server may still be about what the other wanted.
        with pytest.raises(ProtocolError, match="this request may be of any of them"):
            await call(hub, "ask", questions=noting, client="one")
        assert asked == []
        group.cancel_scope.cancel()


async def test_on_a_pipe_one_client_alone_is_asked_whatever_it_gave_up_before() -> None:
    async with hub_of(script(protocol="legacy"), relays_questions=True) as hub:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(call, hub, "wait", client="one"))
            await until(lambda: hub.server("talk").connection.in_flight)
            group.cancel_scope.cancel()
        result = await call(hub, "ask", questions=lives_in("Oslo"), client="one")
        assert json.loads(result.text()) == OSLO


async def test_on_a_pipe_a_question_waits_for_those_of_other_clients() -> None:
    cities: dict[str, str] = {}
    is_asked, is_home = anyio.Event(), anyio.Event()

    async def later(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        is_asked.set()
        await is_home.wait()
        return {"action": "accept", "content": {"city": "Bergen"}}

    async with (
        hub_of(script(protocol="legacy"), relays_questions=True) as hub,
        anyio.create_task_group() as group,
    ):

        async def ask(client: str, questions: Questions) -> None:
            result = await call(hub, "ask", questions=questions, client=client)
            cities[client] = json.loads(result.text())["content"]["city"]

        group.start_soon(ask, "one", Questions(elicitation=later))
        # Only a question that came while one client called is known to be for that client.
        await is_asked.wait()
        group.start_soon(ask, "two", lives_in("Oslo"))
        await until(lambda: unclaimed(hub))
        assert cities == {}
        is_home.set()
        await until(lambda: len(cities) == 2)
    assert cities == {"one": "Bergen", "two": "Oslo"}


async def test_what_the_hub_itself_asks_of_a_server_is_nobodys_call() -> None:
    async with hub_of(script(protocol="legacy"), relays_questions=True) as hub:
        listed = anyio.Event()

        async def list_meanwhile(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
            await hub.server("talk").refresh()
            listed.set()
            return OSLO

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(hub.server("talk").refresh)
            asking = Questions(elicitation=list_meanwhile)
            result = await call(hub, "ask", questions=asking, client="one")
            assert json.loads(result.text()) == OSLO
        assert listed.is_set()


@EVERYWHERE
async def test_logs_and_progress_of_a_call_arrive_in_order_and_before_its_result(
    transport: str, era: str
) -> None:
    async with talkative(transport, era) as (hub, server):
        notes: list[object] = []

        async def log(params: Mapping[str, Any]) -> None:
            await anyio.lowlevel.checkpoint()
            notes.append((params["level"], params["data"]))

        levels = ["debug", "info", "warning", "info", "error"]
        brought: dict[str, Any] = {"on_log": log, "log_level": "info"}
        await call(hub, "log", {"levels": levels}, **brought)
        assert notes == [("info", 1), ("warning", 2), ("info", 3), ("error", 4)]
        assert server.level == ("info" if era == "legacy" else None)
        steps: list[float] = []
        await call(hub, "steps", {"n": 50}, on_progress=lambda done, *_: steps.append(done))
        assert steps == [float(it + 1) for it in range(50)]


async def test_a_legacy_server_logs_as_much_as_the_most_curious_client_wants() -> None:
    async with talkative("http", "legacy") as (hub, server):
        heard: list[object] = []

        def log(params: Mapping[str, Any]) -> None:
            heard.append(params["level"])

        for level, known in (("error", "error"), ("debug", "debug"), ("warning", "debug")):
            await call(hub, "log", {"levels": []}, on_log=log, log_level=level)
            assert server.level == known
        await call(hub, "log", {"levels": ["info", "critical"]}, on_log=log, log_level="warning")
        assert heard == ["critical"]


async def test_on_a_pipe_a_log_that_may_be_of_another_client_is_told_to_nobody() -> None:
    heard: list[object] = []
    async with hub_of(script(protocol="legacy")) as hub:
        log: dict[str, Any] = {"on_log": heard.append, "log_level": "debug"}
        await call(hub, "log", {"levels": ["info"]}, client="one", **log)
        assert len(heard) == 1
        async with anyio.create_task_group() as group:
            group.start_soon(partial(call, hub, "wait", client="two", **log))
            await until(lambda: hub.server("talk").connection.in_flight)
            await call(hub, "log", {"levels": ["info"]}, client="one", **log)
            assert len(heard) == 1
            group.cancel_scope.cancel()


async def test_on_a_pipe_a_client_whose_calls_run_side_by_side_has_a_log_once() -> None:
    heard: list[object] = []
    async with hub_of(script(protocol="legacy")) as hub:
        log: dict[str, Any] = {"on_log": heard.append, "log_level": "debug", "client": "one"}
        async with anyio.create_task_group() as group:
            group.start_soon(partial(call, hub, "wait", **log))
            await until(lambda: hub.server("talk").connection.in_flight)
            await call(hub, "log", {"levels": ["info"]}, **log)
            assert len(heard) == 1
            group.cancel_scope.cancel()


async def test_the_time_a_person_takes_is_not_the_servers() -> None:
    async def think(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        await anyio.sleep(0.6)
        return OSLO

    limit = limits(call=0.3)
    async with talkative("http", "legacy", timeouts=limit) as (hub, _):
        result = await call(hub, "ask", questions=Questions(elicitation=think))
        assert json.loads(result.text()) == OSLO
        with pytest.raises(ToolTimeoutError):
            await call(hub, "wait", questions=Questions(elicitation=think))


async def test_the_time_of_somebody_whom_the_hub_asks_is_not_the_servers() -> None:
    async def think(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        await anyio.sleep(0.6)
        return OSLO

    config = script(protocol="legacy", timeouts=limits(call=0.3))
    async with hub_of(config, elicitation=think) as hub:
        result = await hub.call("mcp_talk_ask")
        assert json.loads(result.text()) == OSLO
        with pytest.raises(ToolTimeoutError):
            await hub.call("mcp_talk_wait")


@EVERYWHERE
async def test_a_resource_is_read_with_what_the_caller_brings_along(
    transport: str, era: str
) -> None:
    async with talkative(transport, era) as (hub, _):
        token = context_of_call.set(CallContext(questions=lives_in("Oslo"), client="one"))
        try:
            result = await hub.server("talk").request("resources/read", {"uri": "note://a"})
        finally:
            context_of_call.reset(token)
        assert json.loads(result["contents"][0]["text"]) == OSLO


async def test_what_a_call_brings_along_does_not_reach_the_calls_that_it_makes_itself() -> None:
    async with talkative("memory", "modern") as (hub, _):

        async def answer(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
            told = json.loads((await hub.call("mcp_talk_told")).text())
            return {"action": "accept", "content": {"city": str(told.get("example.org/x"))}}

        brought: dict[str, Any] = {
            "questions": Questions(elicitation=answer),
            "meta": {"example.org/x": "mine"},
        }
        result = await call(hub, "ask", **brought)
        assert json.loads(result.text())["content"] == {"city": "None"}


async def test_an_error_of_the_server_is_also_given_in_its_own_words() -> None:
    async with talkative("memory", "modern") as (hub, _):
        with pytest.raises(ProtocolError) as caught:
            await hub.server("talk").request("prompts/list")
        assert (caught.value.rpc_code, caught.value.rpc_message) == (-32601, "Method not found")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_definition_keeps_what_we_have_no_use_for(era: str) -> None:
    raw = {
        "name": "go",
        "title": "Go!",
        "icons": [{"src": "https://example.org/go.png"}],
        "inputSchema": {"type": "object", "properties": {"far": {"type": "boolean"}}},
        "annotations": {"readOnlyHint": True},
        "_meta": {"example.org/x": 1},
    }
    async with talkative("memory", era) as (hub, _):
        feed = hub.server("talk").feed
        feed.apply([raw, {"name": "stop"}])
        assert hub.server("talk").definition("go") == raw
        assert hub.server("talk").definition("stop") == {"name": "stop", "inputSchema": {}}
        assert hub.server("talk").definition("fly") is None


@pytest.mark.parametrize("member", ["message", "requestedSchema"])
def test_questions_with_very_many_words_are_refused_before_they_are_shown(member: str) -> None:
    config = ServerConfig(name="asks", transport="stdio", command="x")
    routing = RequestRouting(config, Questions(), CallsInFlight())

    def asking(length: int) -> dict[str, Any]:
        words = "\u202e" + "a" * length
        params = {"message": words, "requestedSchema": {"description": words}}
        asked = {"method": "elicitation/create", "params": {member: params[member]}}
        return {"resultType": "input_required", "inputRequests": {"a": asked, "b": asked}}

    half = LARGEST_QUESTION // 2
    shown = routing.shown(asking(half - 100))["inputRequests"]["a"]["params"][member]
    assert "\\u202e" in str(shown)
    with pytest.raises(ProtocolError, match="more than 65536 bytes"):
        routing.shown(asking(half))
