import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest

from pegboard.doctor import Finding
from tests.doctor.patients import codes, diagnosis, found_in, report_of
from tests.upstream.http_servers import answer, build_server, read_request, serving, serving_raw


@asynccontextmanager
async def always(status: str, body: bytes = b"", **headers: str) -> AsyncGenerator[str]:
    """A server that has one answer to everything."""

    async def handle(stream: anyio.abc.SocketStream) -> None:
        while True:
            await read_request(stream)
            await stream.send(answer(status, body, **headers))

    async with serving_raw(handle) as origin:
        yield origin


async def of_answer(code: str, status: str, body: bytes = b"", **headers: str) -> Finding:
    """What is found where a server has that answer to everything, over both transports."""
    async with always(status, body, **headers) as origin:
        older = await diagnosis({"type": "sse", "url": f"{origin}/mcp"}, code)
        newer = await diagnosis({"url": f"{origin}/mcp"}, code)
    assert older.severity == "error"
    return newer


async def test_a_port_where_nothing_listens_is_told() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        for kind, scheme in (("http", "http"), ("sse", "http"), ("websocket", "ws")):
            entry = {"type": kind, "url": f"{scheme}://127.0.0.1:{port}/mcp"}
            finding = await diagnosis(entry, "connection_refused")
            assert f"the port {port}" in finding.remedy


async def test_a_library_that_is_missing_is_told_and_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "websockets", None)
    entry = {"type": "websocket", "url": "ws://127.0.0.1:1/mcp"}
    finding = await diagnosis(entry, "missing_extra")
    assert "`pegboard[websocket]`" in finding.what
    assert "pip install" in finding.remedy


async def test_an_address_that_no_way_leads_to_is_told() -> None:
    finding = await diagnosis({"url": "http://255.255.255.255/mcp"}, "unreachable")
    assert "nreachable" in finding.what


async def test_a_host_that_nobody_knows_is_told() -> None:
    finding = await diagnosis({"url": "http://nonesuch.invalid/mcp"}, "host_unknown")
    assert "'nonesuch.invalid'" in finding.what


async def test_a_proxy_that_says_that_https_is_expected_is_believed() -> None:
    said = b"Client sent an HTTP request to an HTTPS server."
    await of_answer("tls_expected", "400 Bad Request", said)


async def test_missing_credentials_are_told() -> None:
    finding = await of_answer("unauthorized", "401 Unauthorized")
    assert "its entry has none" in finding.what
    assert '"bearer_token"' in finding.remedy


async def test_a_login_that_is_needed_is_told_with_the_command_for_it() -> None:
    challenge = 'Bearer resource_metadata="http://127.0.0.1/meta"'
    finding = await of_answer("login_needed", "401 Unauthorized", WWW_Authenticate=challenge)
    assert '"oauth": true' in finding.remedy
    assert "`pegboard doctor it --login`" in finding.remedy


async def test_credentials_that_are_refused_are_not_shown() -> None:
    async with always("401 Unauthorized") as origin:
        entry = {"url": f"{origin}/mcp", "headers": {"Authorization": "Bearer canary-1234567890"}}
        findings = await found_in(entry)
    assert codes(findings) == ["plain_secret", "unauthorized"]
    assert "in its `headers`" in findings[1].what
    assert "canary" not in str(findings)


async def test_credentials_that_are_not_enough_are_told() -> None:
    await of_answer("forbidden", "403 Forbidden")


async def test_a_path_where_nothing_is_is_told() -> None:
    finding = await of_answer("wrong_path", "404 Not Found")
    assert "`/mcp`" in finding.remedy


async def test_the_right_path_is_found_out() -> None:
    async with serving(build_server().streamable_http_app()) as origin:
        finding = await diagnosis({"url": f"{origin}/"}, "wrong_path")
        assert f'"url": "{origin}/mcp"' in finding.remedy


async def test_a_server_of_server_sent_events_that_is_given_as_http_is_told() -> None:
    async with serving(build_server().sse_app()) as origin:
        finding = await diagnosis({"type": "http", "url": f"{origin}/sse"}, "wrong_transport")
    assert '`"type": "sse"`' in finding.remedy


async def test_a_server_of_streamable_http_that_is_given_as_sse_is_told() -> None:
    async with serving(build_server().streamable_http_app()) as origin:
        finding = await diagnosis({"type": "sse", "url": f"{origin}/mcp"}, "wrong_transport")
    assert '`"type": "http"`' in finding.remedy


@pytest.mark.parametrize("status", ["405 Method Not Allowed", "406 Not Acceptable", "418 Teapot"])
async def test_another_refusal_is_told_with_its_status(status: str) -> None:
    finding = await of_answer("http_error", status)
    assert status.partition(" ")[0] in finding.what


async def test_too_many_requests_are_told_with_the_time_to_wait() -> None:
    finding = await of_answer("rate_limited", "429 Too Many Requests", Retry_After="30")
    assert "in 30 s" in finding.remedy


async def test_a_server_that_fails_is_told_as_one() -> None:
    finding = await of_answer("server_error", "500 Internal Server Error", b"No disk space")
    assert "No disk space" in finding.what
    await of_answer("server_error", "503 Service Unavailable", Retry_After="3")


async def test_a_web_page_instead_of_a_server_is_told() -> None:
    page = b"<html><title>Log in</title></html>"
    await of_answer("not_mcp", "200 OK", page, content_type="text/html")


async def test_json_that_is_no_answer_is_told() -> None:
    await of_answer("not_mcp", "200 OK", b'{"a": 1}', content_type="application/json")


async def test_an_address_that_leads_on_is_told_with_where_to() -> None:
    where = "https://example.org/login"
    finding = await of_answer("redirected", "302 Found", Location=where)
    assert where in finding.remedy


async def test_a_server_that_stays_silent_is_told_with_the_limit() -> None:
    async def listen(stream: anyio.abc.SocketStream) -> None:
        await anyio.sleep_forever()

    async with serving_raw(listen) as origin:
        for kind in ("http", "sse"):
            entry = {"type": kind, "url": f"{origin}/mcp"}
            finding = await diagnosis(entry, "no_answer", seconds=0.5)
            assert "within 0.5 s" in finding.what


async def test_a_server_that_hangs_up_is_told_somehow() -> None:
    async def hang_up(stream: anyio.abc.SocketStream) -> None:
        await stream.receive()

    async with serving_raw(hang_up) as origin:
        await diagnosis({"url": f"{origin}/mcp"}, "not_mcp")


async def test_a_server_of_http_that_is_well_is_ok() -> None:
    async with serving(build_server().streamable_http_app()) as origin:
        report = await report_of({"it": {"url": f"{origin}/mcp"}})
    assert report.servers[0].state == "ready"
    assert report.servers[0].tools == 3
    assert report.is_ok
