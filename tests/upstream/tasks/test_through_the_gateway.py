"""A client that knows no tasks gets a plain result from a server that makes them, in both eras."""

import json
from typing import Any

import pytest

from pegboard.gateway import Gateway, RpcError
from pegboard.model.json_values import object_in
from pegboard.upstream import Era
from tests.gateway.clients import FULL, Caller, text_of
from tests.upstream.tasks.serving import WORKING, serving

CELLS = pytest.mark.parametrize(
    ("client", "server"),
    [(client, server) for client in ("modern", "legacy") for server in ("modern", "handshake")],
)
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
QUESTION = {"method": "elicitation/create", "params": FORM}
YES: dict[str, Any] = {"action": "accept", "content": {"name": "Ann"}}


@CELLS
async def test_the_result_of_a_task_is_the_result_of_the_call(client: Era, server: str) -> None:
    async with (
        serving("stdio", server, relays_questions=True) as (hub, _),
        Gateway(hub) as gateway,
    ):
        caller = Caller(gateway, client, face=FULL)
        over = {"status": "completed", "result": {"content": [{"type": "text", "text": "done"}]}}
        told = {**WORKING, "statusMessage": "half"}
        states = [WORKING, told, told, over]
        result = await caller.send(
            "tools/call",
            name="mcp_it_go",
            arguments={"states": states},
            _meta={"progressToken": "p"},
        )
        assert text_of(result) == "done"
        assert "task" not in json.dumps(result)
        progress = await caller.wire.next("notifications/progress")
        assert (progress["progressToken"], progress["message"]) == ("p", "half")


@pytest.mark.parametrize("server", ["modern", "handshake"])
async def test_a_question_of_a_task_is_pushed_to_a_client_of_the_handshake_era(server: str) -> None:
    async with (
        serving("stdio", server, relays_questions=True) as (hub, _),
        Gateway(hub) as gateway,
    ):
        caller = Caller(gateway, "legacy", face=FULL, elicitation={}, answers=lambda *_: YES)
        asking = {"status": "input_required", "inputRequests": {"who": QUESTION}}
        result = await caller.call("mcp_it_go", states=[asking], question=QUESTION)
        assert "Ann" in text_of(result)
        assert [method for method, _ in caller.wire.asked] == ["elicitation/create"]


@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.parametrize("server", ["modern", "handshake"])
async def test_a_question_of_a_task_is_a_result_for_a_client_of_the_modern_era(
    server: str, is_full: bool
) -> None:
    async with (
        serving("stdio", server, relays_questions=True) as (hub, _),
        Gateway(hub) as gateway,
    ):
        caller = Caller(gateway, "modern", face=FULL if is_full else None, elicitation={})
        asking = {"status": "input_required", "inputRequests": {"who": QUESTION}}
        script = {"states": [asking], "question": QUESTION}
        call: dict[str, Any] = {"name": "mcp_it_go", "arguments": script}
        if not is_full:
            call = {"name": "call_tool", "arguments": call}
        asked = await caller.send("tools/call", **call)
        assert asked["resultType"] == "input_required"
        assert [it["method"] for it in asked["inputRequests"].values()] == ["elicitation/create"]
        [key] = asked["inputRequests"]
        more = {"inputResponses": {key: YES}, "requestState": asked["requestState"]}
        assert "Ann" in text_of(await caller.send("tools/call", **call, **more))
        # The task is over, and the server neither hears of the state nor works once more.
        with pytest.raises(RpcError) as late:
            await caller.send("tools/call", **call, **more)
        assert object_in(late.value.data)["reason"] == "invalid_request_state"


@CELLS
async def test_the_error_of_a_lost_task_says_to_look_before_the_call_is_repeated(
    client: Era, server: str
) -> None:
    async with (
        serving("stdio", server, relays_questions=True) as (hub, _),
        Gateway(hub) as gateway,
    ):
        caller = Caller(gateway, client, face=FULL)
        lost = {"rpc_error": {"code": -32602, "message": "Task not found"}}
        result = await caller.call("mcp_it_go", states=[lost])
        assert result["isError"]
        assert "look before you repeat it" in text_of(result)
