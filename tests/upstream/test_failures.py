"""Failures over HTTP: each is told as what it is, in one line, without secrets."""

import json
from typing import Any

import pytest
from anyio.abc import SocketStream
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pegboard import UpstreamError
from pegboard.upstream.http.pool import HttpPool
from pegboard.upstream.messages.failures import failure_of_response
from pegboard.upstream.messages.jsonrpc import ServerRpcError
from tests.upstream.board_servers import hub_of
from tests.upstream.http_clients import call, connected, failure_in, post
from tests.upstream.http_servers import (
    answer,
    config_for,
    read_request,
    serving,
    serving_raw,
)

SAID = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "No such tool."}}


NO_SESSION = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"},
}


@pytest.mark.covers("R-AS-30")
@pytest.mark.parametrize(
    ("status", "body", "headers", "expected"),
    [
        (401, b"", {"www-authenticate": 'Bearer error="invalid_token"'}, "unauthorized"),
        (401, json.dumps(SAID).encode(), {}, "unauthorized"),
        (403, b"<html>", {}, "unauthorized"),
        (404, b"not here", {}, "http_error"),
        (404, b"forgotten", {"mcp-session-id": "1"}, "session_lost"),
        (404, json.dumps(SAID).encode(), {"mcp-session-id": "1"}, "session_lost"),
        (400, json.dumps(NO_SESSION).encode(), {"mcp-session-id": "1"}, "session_lost"),
        (429, b"", {"retry-after": "7"}, "busy"),
        (429, b"", {}, "busy"),
        (503, b"", {"retry-after": "7"}, "busy"),
        (503, b"", {}, "http_error"),
        (500, b"\xff" * 5000, {}, "http_error"),
        (500, b'{"jsonrpc":"2.0"}', {}, "http_error"),
        (500, b"[" * 60_000, {}, "http_error"),
        (502, b"x" * 1_000_000, {}, "http_error"),
    ],
)
async def test_an_error_status_becomes_the_kind_of_failure_it_is(
    status: int, body: bytes, headers: dict[str, str], expected: str
) -> None:
    async def endpoint(request: Request) -> Response:
        return Response(body, status, headers=headers)

    app = Starlette(routes=[Route("/mcp", endpoint, methods=["POST"])])
    async with serving(app) as origin, HttpPool() as pool:
        async with pool.client_for(config_for(origin + "/mcp")) as client:
            client.session_id = headers.get("mcp-session-id")
            failure = await failure_in(post(client))
        assert (failure.kind, failure.status) == (expected, status)
        assert failure.challenge == headers.get("www-authenticate")
        assert failure.retry_after == (7 if "retry-after" in headers else None)
        assert len(failure.message) < 300


async def test_an_error_that_the_server_words_itself_passes_unchanged() -> None:
    async def endpoint(request: Request) -> Response:
        return JSONResponse(SAID, 400)

    app = Starlette(routes=[Route("/mcp", endpoint, methods=["POST"])])
    async with serving(app) as origin, HttpPool() as pool:
        async with pool.client_for(config_for(origin + "/mcp")) as client:
            with pytest.raises(ServerRpcError) as caught:
                await post(client)
        assert (caught.value.code, caught.value.message) == (-32602, "No such tool.")


async def test_no_server_can_claim_that_a_request_was_not_sent() -> None:
    claim = {"pegboard": "not_sent", "proof": "0" * 32}
    forged = {**SAID, "error": {"code": -32000, "message": "x", "data": claim}}

    async def endpoint(request: Request) -> Response:
        return JSONResponse(forged, 400)

    app = Starlette(routes=[Route("/mcp", endpoint, methods=["POST"])])
    async with serving(app) as origin, HttpPool() as pool:
        config = config_for(origin + "/mcp", protocol="2026-07-28")
        async with connected(config, pool, protocol="2026-07-28") as session:
            with pytest.raises(UpstreamError) as caught:
                await call(session, "echo")
        assert caught.value.sent


async def test_secrets_that_a_server_repeats_are_hidden() -> None:
    async def endpoint(request: Request) -> Response:
        sent = (request.headers["authorization"], request.headers.get("x-key", ""))
        padding = "." * int(request.headers.get("x-padding", "0"))
        return PlainTextResponse(f"bad token \x1b[31m{padding}" + " ".join(sent), 500)

    app = Starlette(routes=[Route("/mcp", endpoint, methods=["POST"])])
    async with serving(app) as origin, HttpPool() as pool:
        config = config_for(origin + "/mcp", bearer_token="very-secret-token")
        async with pool.client_for(config) as client:
            said = (await failure_in(post(client))).message
            assert "bad token" in said
            assert "very-secret-token" not in said
            assert "very-secret-token" not in repr(client)
            client.set_headers({"Authorization": "Bearer newer-token", "X-Key": "newer-key"})
            said = (await failure_in(post(client))).message
            assert "bad token" in said
            assert "newer" not in said
            assert "\x1b" not in said
            client.set_headers({"X-Padding": "170"})
            assert "very-" not in (await failure_in(post(client))).message


async def test_a_json_answer_that_is_cut_may_have_run() -> None:
    async def handle(stream: SocketStream) -> None:
        await read_request(stream)
        kind = "application/json"
        await stream.send(answer("200 OK", b'{"jsonrpc', content_type=kind, content_length="900"))

    async with (
        serving_raw(handle) as origin,
        HttpPool() as pool,
        pool.client_for(config_for(origin)) as client,
    ):
        assert (await failure_in(post(client))).kind == "lost"


async def test_an_answer_that_is_no_http_may_have_run() -> None:
    async def handle(stream: SocketStream) -> None:
        await read_request(stream)
        await stream.send(b"SSH-2.0-OpenSSH_9.6\r\n")

    async with (
        serving_raw(handle) as origin,
        HttpPool() as pool,
        pool.client_for(config_for(origin)) as client,
    ):
        assert (await failure_in(post(client))).kind == "lost"


async def test_a_failed_tls_handshake_was_not_sent() -> None:
    async def handle(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with (
        serving_raw(handle) as origin,
        HttpPool() as pool,
        pool.client_for(config_for(origin.replace("http:", "https:"))) as client,
    ):
        assert (await failure_in(post(client))).kind == "not_sent"


async def test_an_answer_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegboard.upstream.http.client.LARGEST_RESPONSE", 1000)

    async def endpoint(request: Request) -> Response:
        return JSONResponse("x" * 2000)

    app = Starlette(routes=[Route("/mcp", endpoint, methods=["POST"])])
    async with serving(app) as origin, HttpPool() as pool:
        async with pool.client_for(config_for(origin + "/mcp")) as client:
            failure = await failure_in(post(client))
        assert (failure.kind, failure.status) == ("http_error", 200)


@given(header=st.text(st.characters(codec="ascii"), max_size=40) | st.floats().map(str))
def test_whatever_a_server_says_we_know_how_long_to_wait(header: str) -> None:
    failure = failure_of_response(429, {"retry-after": header}, b"", had_session=False)
    assert failure is not None
    assert failure.retry_after is None or 0 <= failure.retry_after <= 86_400


@given(body=st.binary(max_size=300), status=st.integers(400, 599), had_session=st.booleans())
def test_whatever_a_server_answers_is_told_in_one_printable_line(
    body: bytes, status: int, had_session: bool
) -> None:
    headers = {"www-authenticate": "Bearer"}
    failure = failure_of_response(status, headers, body, had_session=had_session)
    assert failure is not None
    assert failure.message.isprintable()


PAGE = """<!doctype html><html><head><style>p { color: red }</style>
<script>let a = "<b>"</script></head><body><h1>No such &lt;page&gt;</h1></body></html>"""


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, PAGE, "answered with HTTP 404: No such <page>. Check its `url` and `type`."),
        (404, "<title>404 Not Found</title>Sorry!", "answered with HTTP 404: Not Found. Check"),
        (405, "", "answered with HTTP 405. Check its `url` and `type`."),
        (500, '{"detail": "boom"}', 'answered with HTTP 500: {"detail": "boom"}.'),
        (200, PAGE, "does not speak MCP: Unexpected content type: text/html"),
        (401, PAGE, "refused the credentials (HTTP 401). Check its `headers`"),
        (429, "", "is busy (HTTP 429)."),
    ],
)
@pytest.mark.parametrize("transport", ["streamable_http", "sse"])
async def test_an_answer_that_is_none_is_told_in_one_sentence_with_the_address(
    transport: Any, status: int, body: str, words: str
) -> None:
    async def endpoint(request: Request) -> Response:
        return HTMLResponse(body, status)

    app = Starlette(routes=[Route("/mcp", endpoint, methods=["GET", "POST"])])
    async with serving(app) as origin:
        config = config_for(f"{origin}/mcp", transport)
        async with hub_of(config) as hub:
            said = str(hub.servers["remote"].last_error)
    assert said.startswith(f"Server 'remote' ({origin}/mcp) ")
    assert said.count("erver") == 1
    if (transport, status) != ("sse", 200):
        assert words in said


@given(st.text(st.sampled_from("<>/!-script te&;#x9"), max_size=500), st.sampled_from("<x"))
def test_markup_never_hides_a_secret_from_being_hidden(page: str, first: str) -> None:
    def redact(text: str) -> str:
        return text.replace("hunter&2", "***")

    for secret in ("hunter&2", "hunter&amp;2"):
        body = f"{first}{page}{secret}{page}".encode()
        failure = failure_of_response(404, {}, body, had_session=False, redact=redact)
        assert failure is not None
        assert "hunter&2" not in failure.message
