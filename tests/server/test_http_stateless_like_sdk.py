"""The modern era over HTTP answers as the SDK's own server does, to good requests and bad."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)
from starlette.types import ASGIApp

from pegboard.server import App, RequestPipeline
from tests.server.asgi import Answer, ask
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import META, MODERN, modern_request

CALL = modern_request("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "region": {"type": "string", "x-mcp-header": "Re"}},
}
BASE = {
    "host": "127.0.0.1:2",
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": MODERN,
    "mcp-method": "tools/call",
    "mcp-name": "echo",
}


def with_meta(**changes: Any) -> dict[str, Any]:
    meta = {**META, **changes}
    return modern_request("tools/call", CALL["params"]) | {
        "params": {**CALL["params"], "_meta": {k: v for k, v in meta.items() if v is not ...}}
    }


def with_params(**changes: Any) -> dict[str, Any]:
    params = {**CALL["params"], **changes}
    return {**CALL, "params": {k: v for k, v in params.items() if v is not ...}}


BODIES: dict[str, Any] = {
    "a good call": CALL,
    "an id that is a text": {**CALL, "id": "a"},
    "an id that is an empty text": {**CALL, "id": ""},
    "a negative id": {**CALL, "id": -1},
    "a huge id": {**CALL, "id": 2**70},
    "further members": {**CALL, "extra": [1, {"a": None}]},
    "no arguments": with_params(arguments=...),
    "an id that is true": {**CALL, "id": True},
    "an id that is null": {**CALL, "id": None},
    "an id that is a fraction": {**CALL, "id": 1.5},
    "an id that is a list": {**CALL, "id": [1]},
    "no version of JSON-RPC": {k: v for k, v in CALL.items() if k != "jsonrpc"},
    "another version of JSON-RPC": {**CALL, "jsonrpc": "1.0"},
    "JSON-RPC as a number": {**CALL, "jsonrpc": 2.0},
    "no method": {k: v for k, v in CALL.items() if k != "method"},
    "a method that is a number": {**CALL, "method": 3},
    "a method that is null": {**CALL, "method": None},
    "params that are a list": {**CALL, "params": [1]},
    "params that are a text": {**CALL, "params": "x"},
    "params that are null": {**CALL, "params": None},
    "no params": {k: v for k, v in CALL.items() if k != "params"},
    "a batch": [CALL, CALL],
    "an empty batch": [],
    "a text": "hello",
    "a number": 7,
    "null": None,
    "true": True,
    "an empty object": {},
    "an answer": {"jsonrpc": "2.0", "id": 1, "result": {}},
    "an error": {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}},
    "a notification": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}},
    "a notification without params": {"jsonrpc": "2.0", "method": "notifications/x"},
    "a notification with a wrong version": {"jsonrpc": "1", "method": "notifications/x"},
    "a notification with a list": {"jsonrpc": "2.0", "method": "notifications/x", "params": [1]},
    "no meta": with_params(_meta=...),
    "meta that is a list": with_params(_meta=[]),
    "meta that is null": with_params(_meta=None),
    "no protocol version": with_meta(**{PROTOCOL_VERSION_META_KEY: ...}),
    "no capabilities": with_meta(**{CLIENT_CAPABILITIES_META_KEY: ...}),
    "neither": with_params(_meta={}),
    "another protocol version": with_meta(**{PROTOCOL_VERSION_META_KEY: "2025-11-25"}),
    "a protocol version that is a number": with_meta(**{PROTOCOL_VERSION_META_KEY: 20260728}),
    "a protocol version that is null": with_meta(**{PROTOCOL_VERSION_META_KEY: None}),
    "capabilities that are a list": with_meta(**{CLIENT_CAPABILITIES_META_KEY: []}),
    "no client info": with_meta(**{CLIENT_INFO_META_KEY: ...}),
    "client info that is null": with_meta(**{CLIENT_INFO_META_KEY: None}),
    "client info that is a text": with_meta(**{CLIENT_INFO_META_KEY: "me"}),
    "another name than the header": with_params(name="other"),
    "an argument without its header": with_params(arguments={"region": "eu"}),
    "another method than the header": {**CALL, "method": "tools/list"},
}
RAW: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "trailing commas": b'{"a": 1,}',
    "broken UTF-8": b'{"a": "\xff"}',
    "a NUL": b"\x00",
    "deep nesting": b"[" * 100_000,
    "a number with too many digits": b'{"a": ' + b"9" * 5000 + b"}",
}
HEADERS: dict[str, dict[str, str | None]] = {
    "no accept": {"accept": None},
    "only JSON accepted": {"accept": "application/json"},
    "only events accepted": {"accept": "text/event-stream"},
    "everything accepted": {"accept": "*/*"},
    "kinds with wildcards": {"accept": "text/*;q=0.5, application/*"},
    "capitals in accept": {"accept": "Application/JSON, TEXT/event-stream"},
    "nonsense accepted": {"accept": ",;,"},
    "no content type": {"content-type": None},
    "another content type": {"content-type": "text/plain"},
    "a content type with a charset": {"content-type": "application/json; charset=utf-8"},
    "no method header": {"mcp-method": None},
    "another method header": {"mcp-method": "tools/list"},
    "the method header in capitals": {"mcp-method": "TOOLS/CALL"},
    "no name header": {"mcp-name": None},
    "the name in Base64": {"mcp-name": "=?base64?ZWNobw==?="},
    "another name in Base64": {"mcp-name": "=?base64?b3RoZXI=?="},
    "broken Base64": {"mcp-name": "=?base64?%%%?="},
    "an unknown version": {"mcp-protocol-version": "2099-01-01"},
    "an empty version": {"mcp-protocol-version": ""},
    "a parameter header without its argument": {"mcp-param-re": "eu"},
    "an unknown parameter header": {"mcp-param-other": "eu"},
}
METHODS = ("GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS")
UNKNOWN = ("nonsense", "initialize", "ping", "logging/setLevel", "resources/subscribe", "")


@asynccontextmanager
async def both() -> AsyncGenerator[tuple[ASGIApp, ASGIApp]]:
    """Give our application, and the SDK's, with the same tool."""
    gateway = FakeGateway()
    gateway.schemas["echo"] = SCHEMA

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema=SCHEMA)])

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        text = (params.arguments or {}).get("text", "")
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    server = Server(
        "fake",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema={"echo": SCHEMA}.get,
    )
    manager = StreamableHTTPSessionManager(server)
    app = App(RequestPipeline(gateway))
    async with app.open(), manager.run():
        yield app, manager.handle_request


async def answers(
    body: bytes, headers: dict[str, str | None], method: str = "POST"
) -> list[Answer]:
    pairs = [(name, value) for name, value in {**BASE, **headers}.items() if value is not None]
    async with both() as apps:
        return [await ask(app, body, method=method, headers=pairs) for app in apps]


def alike(ours: Answer, theirs: Answer) -> None:
    assert ours.status == theirs.status
    if ours.error is not None and theirs.error is not None:
        assert ours.error[0] == theirs.error[0]
        assert ours.error[1]["code"] == theirs.error[1]["code"]
    else:
        # Where the SDK says nothing or plain words, we may say more.
        assert theirs.error is None
    if theirs.status == 200 and theirs.error is None:
        assert json.loads(ours.body)["result"] == _plain(json.loads(theirs.body)["result"])
    for name in ("allow", "mcp-session-id", "cache-control"):
        assert ours.headers.get(name) == theirs.headers.get(name)


def _plain(result: dict[str, Any]) -> dict[str, Any]:
    """Without what only says that nothing went wrong."""
    return {key: value for key, value in result.items() if (key, value) != ("isError", False)}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_a_body_is_answered_as_the_sdk_answers_it(body: Any) -> None:
    alike(*await answers(json.dumps(body).encode(), {}))


@pytest.mark.parametrize("body", RAW.values(), ids=RAW.keys())
async def test_bytes_are_answered_as_the_sdk_answers_them(body: bytes) -> None:
    alike(*await answers(body, {}))


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS.keys())
async def test_headers_are_taken_as_the_sdk_takes_them(headers: dict[str, str | None]) -> None:
    alike(*await answers(json.dumps(CALL).encode(), headers))


@pytest.mark.parametrize("method", METHODS)
async def test_only_post_is_known(method: str) -> None:
    alike(*await answers(b"", {}, method))


@pytest.mark.parametrize("method", UNKNOWN)
async def test_a_method_of_another_era_is_not_found(method: str) -> None:
    body = modern_request(method)
    alike(*await answers(json.dumps(body).encode(), {"mcp-method": method, "mcp-name": None}))


@pytest.mark.parametrize("name", ["mcp-method", "mcp-name", "mcp-protocol-version"])
async def test_a_header_that_comes_twice_is_refused(name: str) -> None:
    pairs = [*BASE.items(), (name, BASE[name])]
    async with both() as apps:
        alike(*[await ask(app, json.dumps(CALL).encode(), headers=pairs) for app in apps])


async def test_a_version_that_nobody_serves_is_named_with_those_that_are() -> None:
    body = with_meta(**{PROTOCOL_VERSION_META_KEY: "2099-01-01"})
    ours, theirs = await answers(json.dumps(body).encode(), {"mcp-protocol-version": "2099-01-01"})
    assert ours.error == theirs.error
    assert ours.error[1]["data"] == {"supported": [MODERN], "requested": "2099-01-01"}
