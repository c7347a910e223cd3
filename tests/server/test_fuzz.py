"""Whatever is sent to the HTTP face: a proper answer, and the next client is served as before.

A few hundred cases of each kind run with the suite; `make fuzz` runs 10,000 in all.
"""

import json
import os
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pegboard.auth import AnonymousAuthenticator
from pegboard.gateway import Gateway
from pegboard.hub import Hub
from pegboard.server import App, Limits, RequestPipeline
from pegboard.server.http.authentication import HttpAuthenticator
from tests.server.asgi import Answer, ask
from tests.server.serving import META, TAKES_BOTH, modern_headers, modern_request, served

CASES = int(os.environ.get("PEGBOARD_FUZZ", "150"))
GOOD = modern_request(
    "tools/call", {"name": "call_tool", "arguments": {"name": "add", "arguments": {"a": 1, "b": 2}}}
)
STATUSES = {200, 202, 204, 400, 403, 404, 405, 406, 409, 413, 421}
fuzzing = settings(
    max_examples=CASES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

TEXTS = st.text(max_size=20) | st.sampled_from(["", "echo", "call_tool", "\x00", "‮", "𐍈" * 3])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda it: st.lists(it, max_size=4) | st.dictionaries(TEXTS, it, max_size=4),
    max_leaves=12,
)
METHODS = st.sampled_from([
    "server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list",
    "resources/read", "resources/subscribe", "prompts/list", "prompts/get", "completion/complete",
    "logging/setLevel", "ping", "initialize", "notifications/cancelled",
    "notifications/initialized",
]) | TEXTS  # fmt: skip
OWN_TOOLS = st.sampled_from([
    "search_tools", "get_tool_definition", "list_tools_by_category", "register_tool",
    "unregister_tool", "call_tool", "read_result", "add",
])  # fmt: skip
NAMES = st.sampled_from([
    "name", "arguments", "query", "search_method", "limit", "category", "tool_def", "handle", "uri",
    "cursor", "ref", "argument", "level", "offset", "path", "grep", "_meta", "requestState",
    "inputResponses",
]) | TEXTS  # fmt: skip
PARAMS = st.dictionaries(NAMES, VALUES | OWN_TOOLS, max_size=6)
LATIN = st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f")
HEADERS = st.dictionaries(
    st.sampled_from([
        "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "accept",
        "content-type",
        "last-event-id", "mcp-param-a", "origin", "host", "content-length", "authorization",
        "x-api-key", "traceparent", "transfer-encoding",
    ]),
    st.text(LATIN, max_size=30)
    | st.sampled_from(["2026-07-28", "2025-11-25", "*/*", "application/json", "=?base64?w?="]),
    max_size=4,
)  # fmt: skip
PATHS = st.sampled_from(["/mcp", "/mcp-full", "/mcp/x", "/messages", "/metrics", "/healthz", "/"])


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@asynccontextmanager
async def real_app(limits: Limits | None = None) -> AsyncGenerator[App]:
    """Give an app in front of a gateway with one tool of this process."""
    async with Hub.open([]) as hub:
        hub.registry.register(add)
        async with Gateway(hub) as gateway:
            authenticator = HttpAuthenticator(AnonymousAuthenticator(allow_register=True))
            app = App(RequestPipeline(gateway), authenticator=authenticator, limits=limits)
            async with app.open():
                yield app


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="module")
def app(portal: BlockingPortal) -> Iterator[App]:
    with portal.wrap_async_context_manager(real_app(Limits(body=100_000))) as app:
        yield app


async def send(app: App, body: bytes, headers: dict[str, str], **options: Any) -> Answer:
    with anyio.fail_after(5):
        return await ask(app, body, headers={"host": "127.0.0.1", **headers}.items(), **options)


def is_proper(response: Answer, app: App, portal: BlockingPortal) -> None:
    """Check a response, and that other clients are served as before."""
    assert response.status in STATUSES, response
    if response.kind == "application/json" and response.body:
        json.loads(response.body)
    if response.error is not None:
        assert response.error[1]["code"] != -32603, response
    good = portal.call(lambda: send(app, json.dumps(GOOD).encode(), modern_headers(GOOD)))
    assert json.loads(good.body)["result"]["content"][0]["text"] == "3"


@fuzzing
@given(
    method=METHODS,
    params=PARAMS,
    request_id=VALUES,
    meta=st.dictionaries(NAMES, VALUES, max_size=2),
)
def test_any_request_of_the_modern_era_is_answered(
    app: App, portal: BlockingPortal, method: str, params: Any, request_id: Any, meta: Any
) -> None:
    said = params.get("_meta")
    params = {**params, "_meta": {**(said if isinstance(said, dict) else {}), **meta, **META}}
    body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    name = params.get("uri" if method == "resources/read" else "name")
    headers = {**TAKES_BOTH, "mcp-protocol-version": "2026-07-28"}
    headers["mcp-method"] = _as_header(method)
    if isinstance(name, str):
        headers["mcp-name"] = _as_header(name)
    content = json.dumps(body).encode()
    is_proper(portal.call(lambda: send(app, content, headers)), app, portal)


@fuzzing
@given(tool=OWN_TOOLS, arguments=PARAMS)
def test_any_arguments_of_our_own_tools_are_answered(
    app: App, portal: BlockingPortal, tool: str, arguments: Any
) -> None:
    body = modern_request("tools/call", {"name": tool, "arguments": arguments})
    content, headers = json.dumps(body).encode(), modern_headers(body)
    is_proper(portal.call(lambda: send(app, content, headers)), app, portal)


@fuzzing
@given(
    headers=HEADERS,
    path=PATHS,
    method=st.sampled_from(["POST", "DELETE", "PUT", "GET"]),
    body=VALUES,
)
def test_any_headers_are_answered(
    app: App, portal: BlockingPortal, headers: dict[str, str], path: str, method: str, body: Any
) -> None:
    content = json.dumps(body).encode()
    given = {**TAKES_BOTH, **headers}
    response = portal.call(lambda: send(app, content, given, path=path, method=method))
    is_proper(response, app, portal)


@fuzzing
@given(body=st.binary(max_size=200) | st.text().map(lambda it: it.encode("utf-8", "surrogatepass")))
@pytest.mark.parametrize("version", ["2026-07-28", "2025-06-18"])
def test_any_bytes_are_answered(
    app: App, portal: BlockingPortal, body: bytes, version: str
) -> None:
    headers = {**TAKES_BOTH, "mcp-protocol-version": version}
    is_proper(portal.call(lambda: send(app, body, headers)), app, portal)


@fuzzing
@given(messages=st.lists(st.tuples(METHODS, PARAMS | VALUES, VALUES), max_size=4))
def test_any_conversation_of_the_handshake_era_is_answered(
    app: App, portal: BlockingPortal, messages: list[Any]
) -> None:
    async def converse() -> None:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        opened = await send(app, json.dumps(hello).encode(), TAKES_BOTH)
        headers = {**TAKES_BOTH, "mcp-session-id": opened.headers["mcp-session-id"]}
        for method, params, request_id in messages:
            body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
            response = await send(app, json.dumps(body).encode(), headers)
            assert response.status in STATUSES
            assert b"-32603" not in response.body
        assert (await send(app, b"", headers, method="DELETE")).status == 200

    portal.call(converse)


@settings(
    max_examples=max(50, CASES // 10), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(parts=st.lists(st.binary(max_size=300) | st.sampled_from([
    b"POST /mcp HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\n", b"host: localhost\r\n", b"\r\n",
    b"content-length: 5\r\n", b"transfer-encoding: chunked\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n",
    b"content-type: application/json\r\naccept: */*\r\n", b"expect: 100-continue\r\n", b"{}",
    b"upgrade: websocket\r\nconnection: upgrade\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]), max_size=8))  # fmt: skip
def test_any_bytes_on_the_socket_leave_the_server_unharmed(
    address: str, parts: list[bytes]
) -> None:
    parsed = urlsplit(address)
    place = (str(parsed.hostname), int(parsed.port or 0))
    with socket.create_connection(place, timeout=5) as wild:
        for part in parts:
            try:
                wild.sendall(part)
            except OSError:
                break
    with socket.create_connection(place, timeout=5) as tame:
        tame.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert tame.recv(100).startswith(b"HTTP/1.1 200")


@pytest.fixture(scope="module")
def address(portal: BlockingPortal) -> Iterator[str]:
    @asynccontextmanager
    async def on_a_socket() -> AsyncGenerator[str]:
        async with (
            Hub.open([]) as hub,
            Gateway(hub) as gateway,
            served(App(RequestPipeline(gateway))) as url,
        ):
            yield url

    with portal.wrap_async_context_manager(on_a_socket()) as url:
        yield url


def _as_header(text: str) -> str:
    return text.encode("ascii", "replace").decode().replace("\x00", "?")
