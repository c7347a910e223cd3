"""The handshake era over HTTP: sessions, on a real socket."""

import json
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from pegboard.errors import UnauthenticatedError
from pegboard.model.principal import LOCAL, Principal
from pegboard.server import App, HttpAuthenticator, Limits, RequestPipeline
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import TAKES_BOTH, WATCHER, hasty, served, served_fake
from tests.server.test_jsonrpc import UNREADABLE

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
NO_IDS = [None, True, 1.5, [1], {}]


async def open_session(client: httpx2.AsyncClient, url: str, **headers: str) -> str:
    response = await client.post(url, json=INITIALIZE, headers={**TAKES_BOTH, **headers})
    assert response.status_code == 200
    return response.headers["mcp-session-id"]


async def test_a_client_of_the_sdk_lists_calls_and_hears_of_progress() -> None:
    heard: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with served_fake() as (_, url), Client(f"{url}/mcp", mode="legacy") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
        await client.call_tool("count", {}, progress_callback=on_progress)
        assert heard == [0, 1, 2]


async def test_a_client_is_asked_in_mid_call_and_answers() -> None:
    async def agree(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={})

    async with (
        served_fake() as (_, url),
        Client(f"{url}/mcp", mode="legacy", elicitation_callback=agree) as client,
    ):
        result = await client.call_tool("ask", {})
        assert result.content[0].model_dump()["text"] == "accept"


async def test_the_handshake_tells_what_the_gateway_says_of_itself() -> None:
    async with served_fake() as (gateway, url), httpx2.AsyncClient() as client:
        response = await client.post(f"{url}/mcp-full", json=INITIALIZE, headers=TAKES_BOTH)
        said = response.text.split("data: ", 1)[1]
        assert '"protocolVersion":"2025-06-18"' in said
        assert '"listChanged":true' in said
        assert "Call echo on the full surface." in said
        session = response.headers["mcp-session-id"]
        await client.post(f"{url}/mcp-full", json=PING, headers=_of(session))
        heard = gateway.heard[-1].client
        assert (heard.era, heard.version, heard.session) == ("legacy", "2025-06-18", session)
        assert heard.capabilities == {"roots": {}}


@pytest.mark.parametrize(
    "params",
    [{}, {"protocolVersion": 1}, {"protocolVersion": "2025-06-18", "capabilities": []}, [1], None],
)
async def test_a_handshake_without_its_parts_opens_no_session(params: Any) -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        body = {**INITIALIZE, "params": params}
        response = await client.post(f"{url}/mcp", json=body, headers=TAKES_BOTH)
        assert "error" in response.text


async def test_an_unknown_version_is_answered_with_the_latest_we_know() -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        params = {**INITIALIZE["params"], "protocolVersion": "1999-01-01"}
        body = {**INITIALIZE, "params": params}
        response = await client.post(f"{url}/mcp", json=body, headers=TAKES_BOTH)
        assert '"protocolVersion":"2025-11-25"' in response.text


async def test_requests_without_a_session_are_refused_and_leave_none() -> None:
    app = App(RequestPipeline(FakeGateway()))
    async with served(app) as url, httpx2.AsyncClient() as client:
        for body in (PING, {"jsonrpc": "2.0", "method": "notifications/initialized"}):
            response = await client.post(f"{url}/mcp", json=body, headers=TAKES_BOTH)
            assert response.status_code == 400
        page = (await client.get(f"{url}/metrics")).text
        assert 'pegboard_sessions{wire="http"} 0.0' in page


async def test_pushes_reach_the_client_on_its_own_stream() -> None:
    received = anyio.Event()

    async def on_message(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            received.set()

    async with (
        served_fake() as (gateway, url),
        Client(f"{url}/mcp", mode="legacy", message_handler=on_message) as client,
    ):
        await client.list_tools()
        (session,) = gateway.sessions
        with anyio.fail_after(5):
            while not received.is_set():
                # The client opens its stream a moment after the handshake.
                await gateway.sessions[session][1].notify("notifications/tools/list_changed", {})
                await anyio.lowlevel.checkpoint()


async def test_the_gateway_hears_when_a_session_ends() -> None:
    async with served_fake() as (gateway, url):
        async with Client(f"{url}/mcp", mode="legacy") as client:
            await client.list_tools()
            (session,) = gateway.sessions
        with anyio.fail_after(5):
            await gateway.left.wait()
        assert gateway.gone == [session]


async def test_a_session_that_nobody_uses_ends_by_itself() -> None:
    limits = Limits(session_idle_seconds=0.05)
    async with served_fake(limits=limits) as (gateway, url), httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await client.post(f"{url}/mcp", json=done, headers=_of(session))
        with anyio.fail_after(5):
            await gateway.left.wait()
        response = await client.post(f"{url}/mcp", json=PING, headers=_of(session))
        assert response.status_code == 404


async def test_a_cancelled_call_is_cancelled_in_the_gateway() -> None:
    async with (
        served_fake() as (gateway, url),
        httpx2.AsyncClient() as http,
        streamable_http_client(f"{url}/mcp", http_client=http) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.call_tool, "hang", {})
                await gateway.waiting.wait()
                tasks.cancel_scope.cancel()
            await gateway.cancelled.wait()


class ByName:
    """Authenticates each caller under the name that it gives."""

    async def authenticate(self, credential: str | None) -> Principal:
        return Principal(subject=credential or "unnamed", scopes=LOCAL.scopes)


async def test_somebody_elses_session_is_as_unknown_as_none() -> None:
    app = App(RequestPipeline(FakeGateway()), authenticator=HttpAuthenticator(ByName()))
    async with served(app) as url, httpx2.AsyncClient() as client:
        ann, bob = {"x-api-key": "ann"}, {"x-api-key": "bob"}
        session = await open_session(client, f"{url}/mcp", **ann)

        async def ping(path: str = "/mcp", **headers: str) -> httpx2.Response:
            return await client.post(f"{url}{path}", json=PING, headers={**_of(session), **headers})

        assert (await ping(**ann)).status_code == 200
        foreign = await ping(**bob)
        assert foreign.status_code == 404
        assert (await ping("/mcp-full", **ann)).status_code == 404
        nobodys = await client.post(f"{url}/mcp", json=PING, headers={**_of("x" * 32), **bob})
        assert nobodys.text == foreign.text
        gone = await client.delete(f"{url}/mcp", headers={"mcp-session-id": session, **bob})
        assert gone.status_code == 404
        assert (await ping(**ann)).status_code == 200


async def test_the_oldest_idle_session_of_the_largest_holder_gives_way() -> None:
    limits = Limits(sessions=2)
    app = App(
        RequestPipeline(FakeGateway()), authenticator=HttpAuthenticator(ByName()), limits=limits
    )
    async with served(app) as url, httpx2.AsyncClient() as client:
        ann, bob = {"x-api-key": "ann"}, {**TAKES_BOTH, "x-api-key": "bob"}
        sessions = [await open_session(client, f"{url}/mcp", **ann) for _ in range(2)]
        sessions.append(await open_session(client, f"{url}/mcp", **bob))
        headers = [{**_of(it), **key} for it, key in zip(sessions, (ann, ann, bob), strict=True)]
        said = [await client.post(f"{url}/mcp", json=PING, headers=it) for it in headers]
        assert [it.status_code for it in said] == [404, 200, 200]


async def test_where_there_is_nothing_no_session_is_opened() -> None:
    app = App(RequestPipeline(FakeGateway()))
    async with served(app) as url, httpx2.AsyncClient() as client:
        refused = await client.post(f"{url}/mcp/nowhere", json=INITIALIZE, headers=TAKES_BOTH)
        assert refused.status_code == 404
        assert refused.json()["id"] == INITIALIZE["id"]
        assert "nowhere" in refused.json()["error"]["message"]
        assert (await client.get(f"{url}/sse/nowhere")).status_code == 404
        assert '_sessions{wire="http"} 0.0' in (await client.get(f"{url}/metrics")).text


async def test_one_caller_has_only_so_many_sessions_wherever_they_are_opened() -> None:
    limits = Limits(sessions_per_principal=2)
    app = App(
        RequestPipeline(FakeGateway()), authenticator=HttpAuthenticator(ByName()), limits=limits
    )
    async with served(app) as url, httpx2.AsyncClient() as client:
        ann, bob = {"x-api-key": "ann"}, {"x-api-key": "bob"}
        of_bob = await open_session(client, f"{url}/mcp", **bob)
        opened = [await open_session(client, f"{url}/mcp/{it}", **ann) for it in range(3)]

        async def status(session: str, path: str, headers: dict[str, str]) -> int:
            response = await client.post(
                f"{url}{path}", json=PING, headers={**_of(session), **headers}
            )
            return response.status_code

        # The one that was not used for longest gave way.
        found = [await status(it, f"/mcp/{number}", ann) for number, it in enumerate(opened)]
        assert found == [404, 200, 200]
        assert await status(of_bob, "/mcp", bob) == 200


async def test_a_stream_that_was_lost_begins_anew_wherever_it_is_to_go_on() -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        headers = {**_of(session), "last-event-id": "of another server"}
        async with client.stream("GET", f"{url}/mcp", headers=headers) as stream:
            assert stream.status_code == 200


async def test_a_session_has_one_stream_at_a_time() -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        async with client.stream("GET", f"{url}/mcp", headers=_of(session)) as stream:
            assert stream.headers["mcp-session-id"] == session
            second = await client.get(f"{url}/mcp", headers=_of(session))
            assert second.status_code == 409
            with anyio.fail_after(5):
                assert (await client.delete(f"{url}/mcp", headers=_of(session))).is_success
                assert not [line async for line in stream.aiter_lines() if "data" in line]


async def test_a_stream_may_be_opened_again_after_it_was_closed() -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        with anyio.fail_after(5):
            for _ in range(2):
                status = 409
                while status == 409:  # until the server has noticed
                    async with client.stream("GET", f"{url}/mcp", headers=_of(session)) as stream:
                        status = stream.status_code
                assert status == 200


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"accept": "application/json"}, 406),
        ("POST", {"accept": "text/event-stream"}, 406),
        ("POST", {"content-type": "text/plain"}, 415),
        ("POST", {"content-type": "application/json; charset=utf-8"}, 200),
        ("POST", {"accept": "*/*"}, 200),
        ("GET", {"accept": "application/json"}, 406),
        ("PUT", {}, 405),
        ("DELETE", {"accept": "nothing"}, 200),
    ],
)
async def test_what_a_session_accepts(method: str, headers: dict[str, str], status: int) -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        response = await client.request(
            method, f"{url}/mcp", json=PING, headers={**_of(session), **headers}
        )
        assert response.status_code == status
        assert response.headers["mcp-session-id"] == session
        if status == 405:
            assert response.headers["allow"] == "GET, POST, DELETE"


async def test_notifications_and_responses_are_accepted_without_a_body() -> None:
    async with served_fake() as (gateway, url), httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        heard = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        late = {"jsonrpc": "2.0", "id": 99, "result": {}}
        for body in (heard, late, {**late, "error": {"code": 1, "message": "No."}}):
            response = await client.post(f"{url}/mcp", json=body, headers=_of(session))
            assert (response.status_code, response.content) == (202, b"")
            assert response.headers["mcp-session-id"] == session
        assert [it.method for it in gateway.heard] == ["notifications/roots/list_changed"]


async def test_a_client_may_refuse_what_it_is_asked() -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        params = {"name": "ask"}
        call = {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params}
        with anyio.fail_after(5):
            async with client.stream(
                "POST", f"{url}/mcp", json=call, headers=_of(session)
            ) as stream:
                lines = (it async for it in stream.aiter_lines() if it.startswith("data: "))
                question = json.loads((await anext(lines)).removeprefix("data: "))
                assert question["method"] == "elicitation/create"
                said = {"code": -32042, "message": "Not now.", "data": {"a": 1}}
                refusal = {"jsonrpc": "2.0", "id": question["id"], "error": said}
                await client.post(f"{url}/mcp", json=refusal, headers=_of(session))
                response = json.loads((await anext(lines)).removeprefix("data: "))
                assert response == {"jsonrpc": "2.0", "id": "a", "error": said}


async def test_a_session_that_is_used_gives_way_to_none() -> None:
    limits = Limits(sessions_per_principal=1)
    async with served_fake(limits=limits) as (_, url), httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        async with client.stream("GET", f"{url}/mcp", headers=_of(session)):
            refused = await client.post(f"{url}/mcp", json=INITIALIZE, headers=TAKES_BOTH)
            assert refused.status_code == 429
            response = await client.post(f"{url}/mcp", json=PING, headers=_of(session))
            assert response.status_code == 200


async def test_where_nobody_says_who_they_are_each_address_has_its_own_sessions() -> None:
    limits = Limits(sessions_per_principal=2)
    here, there = (httpx2.AsyncHTTPTransport(local_address=f"127.0.0.{it}") for it in (1, 2))
    async with (
        served_fake(limits=limits) as (_, url),
        httpx2.AsyncClient(transport=here) as one,
        httpx2.AsyncClient(transport=there) as other,
    ):
        first = await open_session(one, f"{url}/mcp")
        for _ in range(3):
            await open_session(other, f"{url}/mcp")
        # A client that comes from elsewhere later may go on all the same.
        for client in (one, other):
            response = await client.post(f"{url}/mcp", json=PING, headers=_of(first))
            assert response.status_code == 200


@pytest.mark.parametrize("request_id", NO_IDS)
async def test_a_request_with_an_impossible_id_is_refused(request_id: Any) -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        body = {**PING, "id": request_id}
        response = await client.post(f"{url}/mcp", json=body, headers=_of(session))
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32600)
        assert response.json()["id"] is None
        response = await client.post(f"{url}/mcp", json=PING, headers=_of(session))
        assert response.status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "2.0", "id": 1.5, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "result": 5},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": "x"}},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "method": 3},
        [PING, PING],
        5,
    ],
)
async def test_what_is_no_message_is_refused_in_one_sentence(body: Any) -> None:
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        response = await client.post(f"{url}/mcp", json=body, headers=_of(session))
        assert response.status_code == 400
        words = "This is not a single JSON-RPC request, notification or response object"
        assert response.json()["error"] == {"code": -32600, "message": words}


class Fickle:
    """Authenticates all callers as one person, until it is told otherwise; new keys are valid.

    Of a slow one it never says anything, then.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def authenticate(self, credential: str | None) -> Principal:
        if self.error is not None and credential == "slow":
            await anyio.sleep_forever()
        if self.error is not None and credential != "new":
            raise self.error
        return Principal(subject="ann", scopes=LOCAL.scopes)


REVOKED = UnauthenticatedError("Not any more.", reason="revoked")


async def test_the_stream_of_whoever_is_not_let_in_any_more_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WATCHER, hasty)
    guard = Fickle()
    app = App(RequestPipeline(FakeGateway()), authenticator=HttpAuthenticator(guard))
    async with served(app) as url, httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        async with client.stream("GET", f"{url}/mcp", headers=_of(session)) as stream:
            assert stream.status_code == 200
            guard.error = REVOKED
            with anyio.fail_after(5):
                assert not [line async for line in stream.aiter_lines() if "data" in line]
        response = await client.post(f"{url}/mcp", json=PING, headers=_of(session))
        assert response.status_code == 401


async def test_the_stream_of_one_ends_while_nobody_knows_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WATCHER, hasty)
    guard = Fickle()
    app = App(RequestPipeline(FakeGateway()), authenticator=HttpAuthenticator(guard))
    async with served(app) as url, httpx2.AsyncClient() as client:
        slow = await open_session(client, f"{url}/mcp")
        headers = {**_of(slow), "x-api-key": "slow"}
        async with client.stream("GET", f"{url}/mcp", headers=headers):
            session = await open_session(client, f"{url}/mcp")
            async with client.stream("GET", f"{url}/mcp", headers=_of(session)) as stream:
                guard.error = REVOKED
                with anyio.fail_after(5):
                    assert not [line async for line in stream.aiter_lines() if "data" in line]


async def test_a_mistake_of_whoever_knows_the_callers_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(WATCHER, hasty)
    guard = Fickle()
    app = App(RequestPipeline(FakeGateway()), authenticator=HttpAuthenticator(guard))
    async with served(app) as url, httpx2.AsyncClient() as client:
        session = await open_session(client, f"{url}/mcp")
        async with client.stream("GET", f"{url}/mcp", headers=_of(session)):
            guard.error = RuntimeError("a mistake of the guard")
            with anyio.fail_after(5):
                while "a mistake of the guard" not in caplog.text:
                    await anyio.lowlevel.checkpoint()
            guard.error = None
            response = await client.post(f"{url}/mcp", json=PING, headers=_of(session))
            assert response.status_code == 200


def _of(session: str) -> dict[str, str]:
    return {**TAKES_BOTH, "mcp-session-id": session}


@pytest.mark.parametrize("capabilities", [{}, {"roots": {}}])
async def test_who_introduces_itself_at_too_great_a_length_gets_no_session(
    capabilities: dict[str, Any],
) -> None:
    asked = {**capabilities, "experimental": {"a": {"b": "x" * 17_000}}}
    body = {**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": asked}}
    app = App(RequestPipeline(FakeGateway()))
    async with served(app) as url, httpx2.AsyncClient() as client:
        refused = await client.post(f"{url}/mcp", json=body, headers=TAKES_BOTH)
        assert '"code":-32602' in refused.text
        assert "more than 16384 bytes" in refused.text
        assert "mcp-session-id" not in refused.headers
        assert '_sessions{wire="http"} 0.0' in (await client.get(f"{url}/metrics")).text


@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_a_request_that_cannot_be_read_is_refused_by_its_id(value: str, version: str) -> None:
    body = f'{{"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {{"a": {value}}}}}'
    async with served_fake() as (_, url), httpx2.AsyncClient() as client:
        headers = {**TAKES_BOTH, "mcp-protocol-version": version}
        response = await client.post(f"{url}/mcp", content=body.encode(), headers=headers)
        assert response.status_code in (400, 413)
        assert response.json()["id"] == "a"
