"""The oldest HTTP wire, on a real socket."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp_types import ElicitResult

from pegboard.server import App, HttpAuthenticator, RequestPipeline
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import TAKES_BOTH, WATCHER, hasty, served, served_fake
from tests.server.test_http_sessions import INITIALIZE, NO_IDS, PING, REVOKED, ByName, Fickle


async def test_a_client_of_the_sdk_lists_calls_and_is_asked() -> None:
    async def agree(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="decline")

    async with (
        served_fake() as (gateway, url),
        Client(sse_client(f"{url}/sse"), mode="legacy", elicitation_callback=agree) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
        result = await client.call_tool("ask", {})
        assert result.content[0].model_dump()["text"] == "decline"
        assert len(gateway.sessions) == 1


async def test_the_session_ends_with_the_stream() -> None:
    async with served_fake() as (gateway, url):
        async with Client(sse_client(f"{url}/sse-full/a"), mode="legacy") as client:
            await client.list_tools()
        with anyio.fail_after(5):
            await gateway.left.wait()
        assert gateway.heard[0].client.face.group == "a"
        assert gateway.heard[0].client.face.surface == "full"


def call_of(tool: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool}}


async def data_in(lines: AsyncIterator[str]) -> str:
    """Wait for the data of the next event."""
    while not (line := await anext(lines)).startswith("data: "):
        pass
    return line.removeprefix("data: ")


@asynccontextmanager
async def calling(app: App, tool: str) -> AsyncGenerator[AsyncIterator[str]]:
    """Call a tool in a session; gives the stream of it."""
    async with (
        served(app) as url,
        httpx2.AsyncClient() as client,
        client.stream("GET", f"{url}/sse") as stream,
    ):
        with anyio.fail_after(5):
            lines = stream.aiter_lines()
            address = url + await data_in(lines)
            for message in (INITIALIZE, call_of(tool)):
                await client.post(address, json=message, headers=TAKES_BOTH)
            yield lines


async def test_an_answer_that_is_known_when_all_streams_end_is_written_before() -> None:
    gateway = FakeGateway()
    app = App(RequestPipeline(gateway))
    async with calling(app, "hang") as lines:
        await gateway.waiting.wait()
        gateway.release.set()
        await app.end_streams()
        told = [json.loads(await data_in(lines)) for _ in range(2)]
        assert told[1]["result"]["content"] == [{"type": "text", "text": "released"}]


async def test_a_client_that_does_not_take_its_answer_does_not_keep_a_stream_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pegboard.server.http.sse.LAST_WORDS", 0.05)
    gateway = FakeGateway()
    app = App(RequestPipeline(gateway))
    async with calling(app, "flood"):
        await app.end_streams()
        await gateway.cancelled.wait()


async def test_only_whoever_opened_a_stream_may_post_to_it() -> None:
    app = App(RequestPipeline(FakeGateway()), authenticator=HttpAuthenticator(ByName()))
    async with served(app) as url, httpx2.AsyncClient() as client:
        ann = {"x-api-key": "ann"}
        async with client.stream("GET", f"{url}/sse", headers=ann) as stream:
            lines = stream.aiter_lines()
            address = url + await data_in(lines)
            headers = {**TAKES_BOTH, "x-api-key": "bob"}
            foreign = await client.post(address, json=PING, headers=headers)
            assert foreign.status_code == 404
            own = await client.post(address, json=PING, headers={**TAKES_BOTH, **ann})
            assert own.status_code == 202


async def test_a_stream_ends_with_the_credential_although_it_is_never_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WATCHER, hasty)
    guard = Fickle()
    app = App(RequestPipeline(FakeGateway()), authenticator=HttpAuthenticator(guard))

    async def talk(client: httpx2.AsyncClient, address: str) -> None:
        while True:
            await client.post(address, json=PING, headers={**TAKES_BOTH, "x-api-key": "new"})

    async with (
        served(app) as url,
        httpx2.AsyncClient() as client,
        client.stream("GET", f"{url}/sse") as stream,
    ):
        lines = stream.aiter_lines()
        while not (line := await anext(lines)).startswith("data: "):
            pass
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(talk, client, url + line.removeprefix("data: "))
                while not (line := await anext(lines)).startswith("data: "):
                    pass
                guard.error = REVOKED
                assert [line async for line in lines]
                tasks.cancel_scope.cancel()


async def test_a_request_with_an_impossible_id_is_refused() -> None:
    async with (
        served_fake() as (_, url),
        httpx2.AsyncClient() as client,
        client.stream("GET", f"{url}/sse") as stream,
    ):
        lines = stream.aiter_lines()
        while not (line := await anext(lines)).startswith("data: "):
            pass
        address = url + line.removeprefix("data: ")
        for request_id in NO_IDS:
            body = {**PING, "id": request_id}
            response = await client.post(address, json=body, headers=TAKES_BOTH)
            assert (response.status_code, response.json()["error"]["code"]) == (400, -32600)
        assert (await client.post(address, json=PING, headers=TAKES_BOTH)).status_code == 202


async def test_a_call_that_the_client_cancels_gets_no_answer() -> None:
    gateway = FakeGateway()
    async with (
        served(App(RequestPipeline(gateway))) as url,
        httpx2.AsyncClient() as client,
        client.stream("GET", f"{url}/sse") as stream,
    ):
        with anyio.fail_after(5):
            lines = stream.aiter_lines()
            address = url + await data_in(lines)
            for message in (INITIALIZE, call_of("hang")):
                await client.post(address, json=message, headers=TAKES_BOTH)
            await gateway.waiting.wait()
            method = "notifications/cancelled"
            body = {"jsonrpc": "2.0", "method": method, "params": {"requestId": 2}}
            await client.post(address, json=body, headers=TAKES_BOTH)
            await gateway.cancelled.wait()
            await client.post(address, json={**PING, "id": 3}, headers=TAKES_BOTH)
            told = [json.loads(await data_in(lines))["id"] for _ in range(2)]
            assert told == [INITIALIZE["id"], 3]


async def test_messages_without_a_stream_go_nowhere() -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        for address in ("/messages", "/messages?session_id=x", "/messages?session_id=" + "0" * 32):
            response = await client.post(url + address, json=PING, headers=TAKES_BOTH)
            assert response.status_code in (400, 404)
        assert (await client.post(f"{url}/sse", json=PING)).status_code == 405
