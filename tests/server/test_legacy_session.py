"""Requests of the handshake era: the same for clients that can be asked, and for others."""

import json
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from starlette.types import Message

from pegboard.server import App, Limits, RequestPipeline
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import TAKES_BOTH, served, served_fake
from tests.server.test_http_sessions import INITIALIZE

WAYS = pytest.mark.parametrize(
    "capabilities",
    [{"elicitation": {}, "sampling": {}, "roots": {"listChanged": True}}, {}],
    ids=["can be asked", "cannot"],
)


def initialize(capabilities: dict[str, Any]) -> dict[str, Any]:
    return {**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": capabilities}}


def call(name: str, request_id: Any = 5, **params: Any) -> dict[str, Any]:
    params = {"name": name, **params}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


async def open_session(
    client: httpx2.AsyncClient, url: str, capabilities: dict[str, Any]
) -> dict[str, str]:
    body = initialize(capabilities)
    response = await client.post(url, json=body, headers=TAKES_BOTH)
    return {**TAKES_BOTH, "mcp-session-id": response.headers["mcp-session-id"]}


def messages_in(response: httpx2.Response) -> list[Any]:
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = response.text.splitlines()
    return [json.loads(it.removeprefix("data: ")) for it in lines if it.startswith("data: ")]


@WAYS
async def test_a_request_is_answered_in_its_session(capabilities: dict[str, Any]) -> None:
    async with served_fake() as (gateway, url), httpx2.AsyncClient() as client:
        headers = await open_session(client, f"{url}/mcp", capabilities)
        body = call("echo", "a", arguments={"text": "Grüße"})
        response = await client.post(f"{url}/mcp", json=body, headers=headers)
        result = {"content": [{"type": "text", "text": "Grüße"}]}
        assert messages_in(response) == [{"jsonrpc": "2.0", "id": "a", "result": result}]
        assert response.headers["mcp-session-id"] == headers["mcp-session-id"]
        heard = gateway.heard[-1]
        assert (heard.id, heard.params) == ("a", body["params"])
        assert (heard.client.era, heard.client.session) == ("legacy", headers["mcp-session-id"])


@WAYS
@pytest.mark.parametrize(("name", "code"), [("unknown", -32602), ("break", -32603)])
async def test_what_goes_wrong_is_an_error(
    capabilities: dict[str, Any], name: str, code: int
) -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        headers = await open_session(client, f"{url}/mcp", capabilities)
        response = await client.post(f"{url}/mcp", json=call(name), headers=headers)
        (error,) = messages_in(response)
        assert (error["id"], error["error"]["code"]) == (5, code)
        assert "mistake" not in error["error"]["message"]


@WAYS
async def test_progress_comes_before_the_answer(capabilities: dict[str, Any]) -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        headers = await open_session(client, f"{url}/mcp", capabilities)
        body = call("count", _meta={"progressToken": "t"})
        heard = messages_in(await client.post(f"{url}/mcp", json=body, headers=headers))
        assert [it.get("method") for it in heard] == ["notifications/progress"] * 3 + [None]


@WAYS
async def test_a_request_that_is_taken_back_is_cancelled(capabilities: dict[str, Any]) -> None:
    async with served_fake() as (gateway, url), httpx2.AsyncClient() as client:
        headers = await open_session(client, f"{url}/mcp", capabilities)
        answers: list[httpx2.Response] = []

        async def hang() -> None:
            answers.append(await client.post(f"{url}/mcp", json=call("hang"), headers=headers))

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hang)
                await gateway.waiting.wait()
                params = {"requestId": 5}
                method = "notifications/cancelled"
                body = {"jsonrpc": "2.0", "method": method, "params": params}
                assert (await client.post(f"{url}/mcp", json=body, headers=headers)).is_success
                await gateway.cancelled.wait()
        (error,) = messages_in(answers[0])
        assert (error["id"], error["error"]["code"]) == (5, -32800)


@WAYS
async def test_the_end_of_a_session_is_the_end_of_its_requests(
    capabilities: dict[str, Any],
) -> None:
    async with served_fake() as (gateway, url), httpx2.AsyncClient() as client:
        headers = await open_session(client, f"{url}/mcp", capabilities)

        async def hang() -> None:
            with suppress(httpx2.HTTPError):
                await client.post(f"{url}/mcp", json=call("hang"), headers=headers)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hang)
                await gateway.waiting.wait()
                assert (await client.delete(f"{url}/mcp", headers=headers)).is_success
                await gateway.cancelled.wait()


async def test_two_requests_with_one_id_are_both_answered() -> None:
    async with served_fake() as (gateway, url), httpx2.AsyncClient() as client:
        headers = await open_session(client, f"{url}/mcp", {})

        async def hang() -> None:
            response = await client.post(f"{url}/mcp", json=call("hang"), headers=headers)
            assert "result" in messages_in(response)[0]

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hang)
                await gateway.waiting.wait()
                response = await client.post(f"{url}/mcp", json=call("echo"), headers=headers)
                assert "result" in messages_in(response)[0]
                gateway.release.set()


@WAYS
async def test_a_session_is_in_use_while_a_request_runs(capabilities: dict[str, Any]) -> None:
    limits = Limits(sessions_per_principal=1)
    async with served_fake(limits=limits) as (gateway, url), httpx2.AsyncClient() as client:
        headers = await open_session(client, f"{url}/mcp", capabilities)

        async def another() -> int:
            body = initialize(capabilities)
            return (await client.post(f"{url}/mcp", json=body, headers=TAKES_BOTH)).status_code

        async def hang() -> None:
            await client.post(f"{url}/mcp", json=call("hang"), headers=headers)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hang)
                await gateway.waiting.wait()
                assert await another() == 429
                gateway.release.set()
            while await another() == 429:  # until the server, too, is done with it
                await anyio.lowlevel.checkpoint()


@WAYS
async def test_requests_under_way_are_answered_when_the_process_ends(
    capabilities: dict[str, Any],
) -> None:
    answers: list[str] = []
    async with (
        httpx2.AsyncClient() as client,
        anyio.create_task_group() as tasks,
        served_fake() as (gateway, url),
    ):
        headers = await open_session(client, f"{url}/mcp", capabilities)

        async def hang() -> None:
            response = await client.post(f"{url}/mcp", json=call("hang"), headers=headers)
            answers.append(response.text)

        tasks.start_soon(hang)
        with anyio.fail_after(5):
            await gateway.waiting.wait()
    assert '"id":5,"error"' in answers[0]


@WAYS
async def test_a_line_that_breaks_cancels_nothing(capabilities: dict[str, Any]) -> None:
    gateway = FakeGateway()
    app = App(RequestPipeline(gateway))
    left = anyio.Event()
    async with served(app) as url, httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp", capabilities)
        headers = [("host", "localhost"), *session.items()]
        raw = [(name.encode(), value.encode()) for name, value in headers]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": raw}
        body = [json.dumps(call("hang")).encode()]

        async def receive() -> Message:
            if body:
                return {"type": "http.request", "body": body.pop(), "more_body": False}
            await gateway.waiting.wait()
            left.set()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None: ...

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(app, scope, receive, send)
                await left.wait()
                await anyio.wait_all_tasks_blocked()
                assert not gateway.cancelled.is_set()
                gateway.release.set()
