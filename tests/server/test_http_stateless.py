"""The modern era over HTTP, on a real socket."""

from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY

from pegboard.errors import UnauthenticatedError
from pegboard.gateway import Gateway
from pegboard.model.principal import LOCAL, Principal
from pegboard.server import App, HttpAuthenticator, RequestPipeline
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import (
    WATCHER,
    hasty,
    modern_headers,
    modern_request,
    post,
    served,
    served_fake,
)
from tests.upstream.board_servers import hub_of

TASK = "pbt_" + "x" * 32


async def test_a_client_of_the_sdk_lists_and_calls() -> None:
    async with served_fake() as (_, url), Client(f"{url}/mcp", mode="2026-07-28") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
        result = await client.call_tool("echo", {"text": "Grüße 🌍"})
        assert result.content[0].model_dump()["text"] == "Grüße 🌍"


async def test_a_quick_answer_is_plain_json_with_everything_a_result_needs() -> None:
    async with served_fake() as (gateway, url):
        body = modern_request("tools/call", {"name": "echo", "arguments": {"text": "a"}})
        response = await post(f"{url}/mcp", body)
        assert response.headers["content-type"] == "application/json"
        assert response.json() == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {
                "content": [{"type": "text", "text": "a"}],
                "resultType": "complete",
                "_meta": {"io.modelcontextprotocol/serverInfo": gateway.info},
            },
        }


@pytest.mark.parametrize("request_id", [None, True, 1.5, [1], {}])
async def test_a_request_with_an_impossible_id_is_refused(request_id: Any) -> None:
    async with served_fake() as (gateway, url):
        response = await post(f"{url}/mcp", {**modern_request("tools/list"), "id": request_id})
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32600)
        assert not gateway.heard


async def test_the_gateway_hears_everything_that_was_sent_and_who_sent_it() -> None:
    async with served_fake() as (gateway, url):
        body = modern_request("tools/call", {"name": "echo", "unknown": [1]}, traceparent="00-x")
        await post(f"{url}/mcp-full/things", body)
        (heard,) = gateway.heard
        assert heard.params == body["params"]
        assert (heard.id, heard.method) == (1, "tools/call")
        client = heard.client
        assert (client.era, client.version, client.session) == ("modern", "2026-07-28", "")
        assert (client.face.surface, client.face.group) == ("full", "things")
        assert client.info == {"name": "test", "version": "1"}


@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call"])
async def test_at_the_address_of_a_group_that_there_is_not_nothing_is_found(method: str) -> None:
    async with (
        hub_of() as hub,
        Gateway(hub) as gateway,
        served(App(RequestPipeline(gateway))) as url,
    ):
        params = {"name": "search_tools", "arguments": {"query": "x"}}
        response = await post(f"{url}/mcp/nowhere", modern_request(method, params))
        assert (response.status_code, response.json()["error"]["code"]) == (404, -32602)
        assert "nowhere" in response.json()["error"]["message"]


async def test_notifications_turn_the_answer_into_a_stream() -> None:
    async with served_fake() as (_, url):
        body = modern_request("tools/call", {"name": "count"}, progressToken="t")
        response = await post(f"{url}/mcp", body)
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [line for line in response.text.splitlines() if line.startswith("data: ")]
        assert len(events) == 4
        assert '"progress":2' in events[2]
        assert '"counted"' in events[3]


async def test_a_client_that_goes_cancels_its_request() -> None:
    async with served_fake() as (gateway, url), httpx2.AsyncClient() as client:
        body = modern_request("tools/call", {"name": "hang"})
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: _post_for_ever(client, f"{url}/mcp", body))
                await gateway.waiting.wait()
                tasks.cancel_scope.cancel()
            await gateway.cancelled.wait()


async def test_a_stream_that_is_closed_cancels_its_request() -> None:
    async with served_fake() as (gateway, url), httpx2.AsyncClient() as client:
        body = modern_request("subscriptions/listen")
        headers = modern_headers(body)
        with anyio.fail_after(5):
            async with client.stream("POST", f"{url}/mcp", json=body, headers=headers) as response:
                assert response.headers["content-type"].startswith("text/event-stream")
                await gateway.waiting.wait()
            await gateway.cancelled.wait()


async def test_a_long_silence_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WATCHER, hasty)
    async with served_fake() as (gateway, url), httpx2.AsyncClient() as client:
        body = modern_request("tools/call", {"name": "hang"})
        headers = modern_headers(body)
        with anyio.fail_after(5):
            async with client.stream("POST", f"{url}/mcp", json=body, headers=headers) as response:
                lines = response.aiter_lines()
                assert await anext(lines) == ": ping"
                gateway.release.set()
                rest = [line async for line in lines if line.startswith("data: ")]
        assert len(rest) == 1
        assert "released" in rest[0]


async def test_whoever_is_not_let_in_any_more_is_let_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Fickle:
        async def authenticate(self, credential: str | None) -> Principal:
            if gateway.waiting.is_set():
                raise UnauthenticatedError("Not any more.", reason="revoked")
            return LOCAL

    monkeypatch.setattr(WATCHER, hasty)
    gateway = FakeGateway()
    app = App(RequestPipeline(gateway), authenticator=HttpAuthenticator(Fickle()))
    async with served(app) as url, httpx2.AsyncClient() as client:
        body = modern_request("subscriptions/listen")
        headers = modern_headers(body)
        with anyio.fail_after(5):
            async with client.stream("POST", f"{url}/mcp", json=body, headers=headers) as stream:
                await gateway.cancelled.wait()
                assert len([line async for line in stream.aiter_lines() if "data" in line]) == 1
            hanging = modern_request("tools/call", {"name": "hang"})
            gateway.waiting = anyio.Event()
            response = await client.post(
                f"{url}/mcp", json=hanging, headers=modern_headers(hanging)
            )
            assert response.status_code == 401
    assert not caplog.text


async def test_a_mistake_of_ours_is_an_internal_error_without_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served_fake() as (_, url):
        response = await post(f"{url}/mcp", modern_request("tools/call", {"name": "break"}))
        assert response.status_code == 200
        error = {"code": -32603, "message": "Internal server error"}
        assert response.json() == {"jsonrpc": "2.0", "id": 1, "error": error}
        assert "a mistake of ours" in caplog.text


async def test_two_requests_with_one_id_do_not_disturb_each_other() -> None:
    async with served_fake() as (gateway, url):
        answers: list[str] = []

        async def call(name: str) -> None:
            body = modern_request("tools/call", {"name": name, "arguments": {"text": name}})
            answers.append((await post(f"{url}/mcp", body)).text)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, "hang")
                await gateway.waiting.wait()
                await call("echo")
                gateway.release.set()
        assert "echo" in answers[0]
        assert "released" in answers[1]


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_the_header_of_a_task_must_say_the_same_as_the_body(method: str) -> None:
    async with served_fake() as (gateway, url):
        body = modern_request(method, {"taskId": TASK, "inputResponses": {}})
        wrong = await post(f"{url}/mcp", body, **{"mcp-name": TASK[::-1]})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, -32020)
        async with httpx2.AsyncClient() as client:
            headers = modern_headers(body)
            del headers["mcp-name"]
            missing = await client.post(f"{url}/mcp", json=body, headers=headers)
        assert (missing.status_code, missing.json()["error"]["code"]) == (400, -32020)
        assert gateway.heard == []
        await post(f"{url}/mcp", body)
        assert [it.method for it in gateway.heard] == [method]


async def test_arguments_in_headers_must_say_the_same_as_the_body() -> None:
    async with served_fake() as (gateway, url):
        region = {"type": "string", "x-mcp-header": "Region"}
        gateway.schemas["echo"] = {"type": "object", "properties": {"region": region}}
        body = modern_request("tools/call", {"name": "echo", "arguments": {"region": "eu"}})
        good = await post(f"{url}/mcp", body, **{"mcp-param-region": "eu"})
        wrong = await post(f"{url}/mcp", body, **{"mcp-param-region": "us"})
        missing = await post(f"{url}/mcp", body)
        assert (good.status_code, wrong.status_code, missing.status_code) == (200, 400, 400)
        assert wrong.json()["error"]["code"] == -32020
        assert len(gateway.heard) == 1


async def test_requests_under_way_are_answered_when_the_process_ends() -> None:
    answers: list[httpx2.Response] = []
    body = modern_request("tools/call", {"name": "hang"})

    async def call(url: str) -> None:
        answers.append(await post(url, body))

    async with anyio.create_task_group() as tasks, served_fake() as (gateway, url):
        tasks.start_soon(call, f"{url}/mcp")
        with anyio.fail_after(5):
            await gateway.waiting.wait()
    # Not 503: a load balancer would send it again, elsewhere.
    assert answers[0].status_code == 200
    assert answers[0].json()["error"]["code"] == -32603
    assert "may have run" in answers[0].json()["error"]["message"]


async def _post_for_ever(client: httpx2.AsyncClient, url: str, body: dict[str, Any]) -> None:
    await client.post(url, json=body, headers=modern_headers(body), timeout=None)


@pytest.mark.parametrize("key", [CLIENT_INFO_META_KEY, CLIENT_CAPABILITIES_META_KEY])
async def test_who_introduces_itself_at_too_great_a_length_is_refused(key: str) -> None:
    async with served_fake() as (gateway, url):
        body = modern_request("tools/list", **{key: {"name": "x" * 17_000}})
        response = await post(f"{url}/mcp", body)
        assert response.json()["error"]["code"] == -32602
        assert gateway.heard == []


async def test_of_a_request_to_listen_only_what_is_looked_at_is_kept() -> None:
    junk = ["x" * 1000] * 100
    wanted = {
        "toolsListChanged": True,
        "promptsListChanged": 1,
        "resourceSubscriptions": ["a:b", "a:b", 5],
        "taskIds": [TASK, TASK, "x" * 1000, 5],
        "more": junk,
    }
    async with served_fake() as (gateway, url), httpx2.AsyncClient() as client:
        params = {"notifications": wanted, "more": junk}
        trace = {"traceparent": "00-x", "baggage": "x" * 10_000}
        body = modern_request("subscriptions/listen", params, more=junk, **trace)
        headers = modern_headers(body)
        with anyio.fail_after(5):
            async with client.stream("POST", f"{url}/mcp", json=body, headers=headers):
                await gateway.waiting.wait()
        assert gateway.heard[0].params == {
            "notifications": {
                "toolsListChanged": True,
                "resourceSubscriptions": ["a:b"],
                "taskIds": [TASK],
            },
            "_meta": {"traceparent": "00-x"},
        }
        wanted["resourceSubscriptions"] = [f"a:{number}" for number in range(1001)]
        response = await post(f"{url}/mcp", body)
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32602)
        assert len(gateway.heard) == 1
