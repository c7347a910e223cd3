import json
from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from pegboard.gateway import Gateway, RpcError
from pegboard.gateway.calls.call_notifier import CallNotifier
from pegboard.upstream import Era
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import Stall, hub
from tests.upstream.talkative import script

QUESTION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which colour?",
        "requestedSchema": {"type": "object", "properties": {"word": {"type": "string"}}},
    },
}
YES = {"action": "accept", "content": {"word": "blue"}}


def modern_stall() -> Stall:
    """A server of the modern era: it asks by its result."""
    stall = Stall()

    async def ask(context: Any, _: Any) -> dict[str, Any]:
        given = context.params or {}
        if given.get("requestState") != "round-1":
            asked = {"resultType": "input_required", "inputRequests": {"colour": QUESTION}}
            return {**asked, "requestState": "round-1"}
        said = given["inputResponses"]["colour"]["content"]["word"]
        return {"content": [{"type": "text", "text": said}]}

    async def meta(context: Any, _: Any) -> dict[str, Any]:
        sent = (context.params or {}).get("_meta")
        return {"content": [{"type": "text", "text": json.dumps(sent)}]}

    stall.tools = {"ask": ask, "meta": meta}
    return stall


@pytest.mark.parametrize("is_full", [True, False])
async def test_a_modern_server_asks_a_modern_client_through_the_gateway(is_full: bool) -> None:
    async with hub(modern_stall().config("desk")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, face=FULL if is_full else None, elicitation={})
        params: dict[str, Any] = {"name": "mcp_desk_ask", "arguments": {}}
        if not is_full:
            params = {"name": "call_tool", "arguments": {"name": "mcp_desk_ask"}}
        asked = await caller.send("tools/call", **params)
        assert asked["inputRequests"] == {"colour": QUESTION}
        assert asked["requestState"] == "round-1"
        more = {"inputResponses": {"colour": YES}, "requestState": "round-1"}
        assert text_of(await caller.send("tools/call", **params, **more)) == "blue"


async def test_for_a_client_of_the_handshake_era_the_gateway_drives_the_rounds() -> None:
    async with hub(modern_stall().config("desk")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, "legacy", face=FULL, elicitation={}, answers=lambda *_: YES)
        assert text_of(await caller.call("mcp_desk_ask")) == "blue"
        [(method, params)] = caller.wire.asked
        assert method == "elicitation/create"
        assert params["message"] == "Which colour?"


async def test_a_client_that_refuses_is_not_asked_again() -> None:
    def refuse(*_: object) -> dict[str, Any]:
        raise RpcError(-1, "The person said no.")

    async with hub(modern_stall().config("desk")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, "legacy", face=FULL, elicitation={}, answers=refuse)
        with pytest.raises(RpcError):
            await caller.call("mcp_desk_ask")
        assert len(caller.wire.asked) == 1


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_a_client_attaches_reaches_the_server_and_what_is_ours_does_not(
    era: Era,
) -> None:
    async with hub(modern_stall().config("desk")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era, face=FULL, sampling={"tools": {}})
        attached = {
            "traceparent": "00-1-2-01",
            "example.org/x": {"y": 1},
            "progressToken": 5,
            "io.modelcontextprotocol/clientInfo": {"name": "theirs", "version": "1"},
        }
        result = await caller.send("tools/call", name="mcp_desk_meta", arguments={}, _meta=attached)
        got = json.loads(text_of(result))
        assert got["traceparent"] == "00-1-2-01"
        assert got["example.org/x"] == {"y": 1}
        assert got.get("progressToken") != 5
        assert got["io.modelcontextprotocol/clientInfo"]["name"] != "theirs"
        assert got["io.modelcontextprotocol/clientCapabilities"] == {
            "sampling": {"tools": {}},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        }


async def test_a_foreign_state_goes_to_a_modern_server_only() -> None:
    configs = (modern_stall().config("new"), Stall().config("old", protocol="legacy"))
    async with hub(*configs) as it, Gateway(it) as gateway:
        caller = Caller(gateway, face=FULL, elicitation={})
        # As a gateway behind this one would have made it.
        result = await caller.send("tools/call", name="mcp_new_ask", requestState="pb1.x.1.y")
        assert result["resultType"] == "input_required"
        with pytest.raises(RpcError):
            await caller.send("tools/call", name="mcp_old_ask", requestState="pb1.x.1.y")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_client_that_reads_nothing_is_told_before_the_result_how_many_logs_it_lost(
    era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.upstream.session.in_flight.LAST_NOTES", 0.05)
    async with hub(script(protocol="legacy")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era, face=FULL)
        keeps, is_first = caller.wire.notify, True

        async def notify(method: str, params: Mapping[str, Any]) -> None:
            nonlocal is_first
            if is_first:
                is_first = False
                await anyio.sleep_forever()
            await keeps(method, params)

        monkeypatch.setattr(caller.wire, "notify", notify)
        meta = {"io.modelcontextprotocol/logLevel": "info"} if era == "modern" else {}
        call = {"name": "mcp_talk_log", "arguments": {"levels": ["info"] * 5}, "_meta": meta}
        with anyio.fail_after(10):
            await caller.send("tools/call", **call)
        [(method, params)] = caller.wire.sent
        assert (method, params["level"]) == ("notifications/message", "warning")
        assert params["data"].endswith(": 4.")


async def test_log_messages_are_sent_from_the_level_that_was_asked_for() -> None:
    key = "io.modelcontextprotocol/logLevel"
    cases: list[tuple[Era, str | None, dict[str, Any], list[str]]] = [
        ("legacy", None, {}, ["debug", "error", "odd"]),
        ("legacy", "warning", {}, ["error", "odd"]),
        ("modern", None, {}, []),
        ("modern", None, {key: "error"}, ["error", "odd"]),
        ("modern", None, {key: "loud"}, []),
        ("modern", None, {key: []}, []),
    ]
    async with hub() as it, Gateway(it) as gateway:
        for era, level, meta, expected in cases:
            caller = Caller(gateway, era)
            notifier = CallNotifier(caller.exchange("tools/call", _meta=meta), level=level)
            for grave in ("debug", "error", "odd"):
                await notifier.log({"level": grave, "data": "x"})
            assert [params["level"] for _, params in caller.wire.sent] == expected
            notifier.request = None
            await notifier.log({"level": "error"})
            await notifier.progress(1, None, None)
            assert len(caller.wire.sent) == len(expected)


@pytest.mark.parametrize("asks", ["by a question", "by an error"])
async def test_a_client_that_was_sent_to_a_page_is_told_when_it_was_visited(asks: str) -> None:
    stall = Stall()
    page = {"mode": "url", "message": "Log in.", "url": "https://a.test", "elicitationId": "p1"}

    async def visit(context: Any, _: Any) -> dict[str, Any]:
        if asks == "by an error":
            raise MCPError(types.URL_ELICITATION_REQUIRED, "Log in.", {"elicitations": [page]})
        await context.session.elicit_url("Log in.", "https://a.test", "p1")
        return {"content": []}

    async def visited(context: Any, _: Any) -> dict[str, Any]:
        for number in ("p1", "p1", "p2"):
            await context.session.send_elicit_complete(number)
        return {"content": []}

    stall.tools = {"visit": visit, "visited": visited}
    async with hub(stall.config("desk", protocol="legacy")) as it, Gateway(it) as gateway:

        def client(session: str) -> Caller:
            made = Caller(
                gateway,
                "legacy",
                face=FULL,
                session=session,
                answers=lambda *_: {"action": "accept"},
                elicitation={"url": {}},
            )
            gateway.connected(made.client, made.wire)
            return made

        caller, other = client("s1"), client("s2")
        await anyio.wait_all_tasks_blocked()
        if asks == "by an error":
            with pytest.raises(RpcError):
                await caller.call("mcp_desk_visit")
        else:
            await caller.call("mcp_desk_visit")
        await other.call("mcp_desk_visited")
        told = await caller.wire.next("notifications/elicitation/complete")
        assert told == {"elicitationId": "p1"}
        await anyio.wait_all_tasks_blocked()
        assert [method for method, _ in (*caller.wire.sent, *other.wire.sent)] == []
