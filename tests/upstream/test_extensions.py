"""The allow-list of extensions: what servers are told, and which results are taken from them."""

from typing import Any

import anyio
import pytest

from pegboard import ProtocolError, UnsupportedResultError
from pegboard.upstream import CallContext, context_of_call
from pegboard.upstream.messages.extensions import carried_capabilities, check_result_type
from tests.upstream.board_servers import hub_of
from tests.upstream.hosted import HostedServer, call, config_of, listening, result, saying
from tests.upstream.http_servers import answer

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
JSON = {"content_type": "application/json"}


@pytest.mark.parametrize(
    ("said", "carried"),
    [
        ({}, {}),
        ({"elicitation": {}}, {"elicitation": {}}),
        ({"elicitation": {"form": None, "url": {}}}, {"elicitation": {"url": {}}}),
        ({"elicitation": {"url": 1}}, {}),
        ({"elicitation": None, "sampling": [], "roots": "yes"}, {}),
        ({"roots": {"listChanged": True}}, {"roots": {"listChanged": True}}),
        ({"sampling": {"tools": {}, "other": {}}}, {"sampling": {"tools": {}}}),
        ({"extensions": {"com.example/x": {}}}, {}),
        ({"extensions": ["io.modelcontextprotocol/ui"]}, {}),
        ({"extensions": {"io.modelcontextprotocol/ui": None}}, {}),
        ({"tasks": {}, "experimental": {}, "anything": {}}, {}),
    ],
)
def test_only_known_capabilities_in_their_shape_are_carried(
    said: dict[str, Any], carried: dict[str, Any]
) -> None:
    assert carried_capabilities(said) == carried
    assert carried_capabilities(carried_capabilities(said)) == carried


@pytest.mark.parametrize("kind", ["complete", None])
def test_a_complete_result_is_taken_for_every_method(kind: str | None) -> None:
    check_result_type({"resultType": kind, "content": []}, "tools/call", server="it")
    check_result_type({"resultType": kind, "tools": []}, "tools/list", server="it")


@pytest.mark.parametrize(
    ("method", "raw", "kind"),
    [
        ("tools/list", {"resultType": "input_required"}, "input_required"),
        ("prompts/get", {"resultType": "com.example/later"}, "com.example/later"),
        ("resources/read", {"resultType": 7}, ""),
        ("tools/call", {"resultType": ["complete"]}, ""),
        ("resources/read", {"resultType": "task", "taskId": "t"}, "task"),
        ("tools/call", {"resultType": "task", "taskId": "t", "content": []}, "task"),
    ],
)
def test_any_other_result_is_refused_with_its_type(
    method: str, raw: dict[str, Any], kind: str
) -> None:
    with pytest.raises(UnsupportedResultError) as caught:
        check_result_type(raw, method, server="it")
    assert (caught.value.result_type, caught.value.server) == (kind, "it")
    assert caught.value.sent


async def test_a_task_that_has_content_is_refused_with_an_error_that_names_it() -> None:
    task = {"resultType": "task", "taskId": "t-1", "status": "working"}
    say = saying(lambda request: answer("200 OK", result(request, **task), **JSON))
    async with listening(HostedServer(say)) as server, hub_of(config_of(server)) as hub:
        with anyio.fail_after(20), pytest.raises(UnsupportedResultError, match="'t-1'") as caught:
            await call(hub)
    assert (caught.value.result_type, caught.value.tool) == ("task", "mcp_it_go")


async def test_the_library_tells_a_server_only_of_capabilities_that_are_carried() -> None:
    say = saying(lambda request: answer("200 OK", result(request), **JSON))
    said = {"elicitation": {"form": {}}, "extensions": {"com.example/x": {}}}
    async with listening(HostedServer(say)) as server, hub_of(config_of(server)) as hub:
        token = context_of_call.set(CallContext(capabilities=said))
        try:
            await call(hub)
        finally:
            context_of_call.reset(token)
        told = server.calls[0].request["params"]["_meta"][CAPABILITIES]
    # Tasks are Pegboard's own extension, whatever the client says.
    assert told == {
        "elicitation": {"form": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }


async def test_a_list_of_an_unknown_type_is_an_error_of_the_server_and_no_empty_list() -> None:
    say = saying(lambda request: answer("200 OK", result(request), **JSON))
    server = HostedServer(say)
    async with listening(server), hub_of(config_of(server)) as hub:
        greet = server.greet
        server.greet = lambda request: (
            answer("200 OK", result(request, tools=[], resultType="later"), **JSON)
            if request.get("method") == "tools/list"
            else greet(request)
        )
        with pytest.raises(ProtocolError, match="'later'"):
            await hub.server("it").refresh()
        assert [tool.name for tool in hub.registry.tools()] == ["mcp_it_go"]


@pytest.mark.parametrize("protocol", ["2026-07-28", "legacy"])
@pytest.mark.parametrize("is_gateway", [True, False])
async def test_a_gateway_declares_skills_when_a_session_begins(
    protocol: Any, *, is_gateway: bool
) -> None:
    said: list[Any] = []
    server = HostedServer(saying(lambda request: answer("200 OK", result(request), **JSON)))
    greet = server.greet

    def noting(request: dict[str, Any]) -> bytes:
        params = request.get("params") or {}
        if request.get("method") == "server/discover":
            said.append(params["_meta"][CAPABILITIES])
        elif request.get("method") == "initialize":
            said.append(params["capabilities"])
            info = {"name": "it", "version": "1"}
            welcome: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "serverInfo": info,
            }
            return answer("200 OK", result(request, **welcome), **JSON)
        return greet(request)

    server.greet = noting
    async with listening(server):
        config = config_of(server, protocol=protocol)
        async with hub_of(config, relays_questions=is_gateway) as hub:
            await hub.server("it").start()
    skills = {"io.modelcontextprotocol/skills": {}} if is_gateway else {}
    tasks = {"io.modelcontextprotocol/tasks": {}} if protocol != "legacy" else {}
    assert said
    assert [it.get("extensions", {}) for it in said] == [skills | tasks] * len(said)
