"""Which callers are authenticated, by which header, and what other callers get."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from pegboard.auth import ApiKeys, AuthSettings, KeyGrant, TokenIssuer, open_authenticator
from pegboard.errors import UnauthenticatedError
from pegboard.model.principal import OPERATOR, Principal, Scope
from pegboard.server import App, HttpAuthenticator, RequestPipeline
from pegboard.storage import open_store
from tests.server.asgi import Answer, ask
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import modern_headers, modern_request

CALL = modern_request("tools/call", {"name": "echo", "arguments": {"text": "a"}})
LIST = modern_request("tools/list")
TOKENS = TokenIssuer(issuer="https://login.example.com")
SETTINGS = AuthSettings(issuers=(TOKENS,), resource="https://tools.example.com/mcp")


class Guard:
    """Knows callers by name; every name is its own credential."""

    def __init__(self, *scopes: Scope, **limits: Any) -> None:
        self._scopes = frozenset(scopes)
        self._limits = limits

    async def authenticate(self, credential: str | None) -> Principal:
        match credential:
            case None:
                raise UnauthenticatedError("Who asks?", reason="missing")
            case "down":
                raise UnauthenticatedError("The key store is down.", reason="unavailable")
            case "bad":
                raise UnauthenticatedError('Not "this".', reason="invalid")
            case name:
                return Principal(subject=name, scopes=self._scopes, **self._limits)


async def send(app: App, body: dict[str, Any], *more: tuple[str, str], **options: Any) -> Answer:
    pairs = [("host", "127.0.0.1"), *modern_headers(body).items(), *more]
    return await ask(app, json.dumps(body).encode(), headers=pairs, **options)


@asynccontextmanager
async def guarded(*scopes: Scope, **limits: Any) -> AsyncGenerator[tuple[FakeGateway, App]]:
    gateway = FakeGateway()
    app = App(
        RequestPipeline(gateway),
        authenticator=HttpAuthenticator(Guard(*scopes, **limits), settings=SETTINGS),
    )
    async with app.open():
        yield gateway, app


async def test_a_key_is_taken_from_either_header(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"

    def make() -> str:
        with open_store(path, tenant=OPERATOR) as store:
            return ApiKeys(store).create(KeyGrant(name="me", scopes=("call",))).secret

    secret = await anyio.to_thread.run_sync(make)
    gateway = FakeGateway()
    settings = AuthSettings(keys=True)
    async with open_authenticator(settings, storage=path) as authenticator:
        app = App(
            RequestPipeline(gateway),
            authenticator=HttpAuthenticator(authenticator, settings=settings),
        )
        async with app.open():
            for header in (("authorization", f"Bearer {secret}"), ("x-api-key", secret)):
                assert (await send(app, CALL, header)).status == 200
            for header in (("authorization", f"Bearer {secret}x"), ("x-api-key", "x")):
                assert (await send(app, CALL, header)).status == 401
            assert (await send(app, CALL)).status == 401
    assert len(gateway.heard) == 2
    assert gateway.heard[0].client.principal.subject.startswith("pb_")


async def test_spaces_around_a_header_mean_nothing() -> None:
    async with guarded("call") as (gateway, app):
        headers = {"host": "127.0.0.1", **modern_headers(CALL), "x-api-key": "ann"}
        spaced = [(name, f" \t{value} ") for name, value in headers.items()]
        assert (await ask(app, json.dumps(CALL).encode(), headers=spaced)).status == 200
        assert gateway.heard[0].client.principal.subject == "ann"


async def test_whoever_says_nothing_is_told_where_to_get_a_token() -> None:
    async with guarded("call") as (gateway, app):
        response = await send(app, CALL)
        assert response.status == 401
        challenge = response.headers["www-authenticate"]
        address = "https://tools.example.com/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{address}"' in challenge
        assert "error=" not in challenge
        assert response.error[1]["data"] == {"reason": "missing"}
        assert not gateway.heard


async def test_a_credential_that_is_not_accepted_is_called_so() -> None:
    async with guarded("call") as (_, app):
        response = await send(app, CALL, ("authorization", "Bearer bad"))
        assert response.status == 401
        assert 'error="invalid_token"' in response.headers["www-authenticate"]


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", "Basic YTpi")],
        [("authorization", "Bearer a"), ("x-api-key", "b")],
        [("authorization", "Bearer a"), ("authorization", "Bearer b")],
        [("x-api-key", "a"), ("x-api-key", "a")],
    ],
)
async def test_two_credentials_or_another_kind_are_no_credential(
    headers: list[tuple[str, str]],
) -> None:
    async with guarded("call") as (gateway, app):
        assert (await send(app, CALL, *headers)).status == 401
        assert not gateway.heard


async def test_when_nobody_can_tell_the_client_is_to_come_back() -> None:
    async with guarded("call") as (_, app):
        response = await send(app, CALL, ("x-api-key", "down"))
        assert response.status == 503
        assert response.headers["retry-after"] == "5"


async def test_a_missing_scope_is_named() -> None:
    async with guarded("read") as (gateway, app):
        response = await send(app, CALL, ("x-api-key", "ann"))
        assert response.status == 403
        challenge = response.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="pegboard:call"' in challenge
        assert not gateway.heard
        assert (await send(app, LIST, ("x-api-key", "ann"))).status == 200


async def test_tools_of_the_gateway_need_the_scope_of_what_they_do() -> None:
    async with guarded("read") as (gateway, app):
        body = modern_request("tools/call", {"name": "search_tools"})
        await send(app, body, ("x-api-key", "ann"))
        assert gateway.heard[0].params["name"] == "search_tools"


@pytest.mark.parametrize("path", ["", "/mcp"])
async def test_anybody_may_read_where_tokens_come_from(path: str) -> None:
    async with guarded("call") as (_, app):
        headers = [("host", "127.0.0.1")]
        path = f"/.well-known/oauth-protected-resource{path}"
        response = await ask(app, method="GET", path=path, headers=headers)
        assert response.status == 200
        assert json.loads(response.body)["authorization_servers"] == ["https://login.example.com"]


@pytest.mark.parametrize("origin", ["https://app.example.org", "http://localhost:6274"])
async def test_any_page_may_read_where_tokens_come_from(origin: str) -> None:
    path = "/.well-known/oauth-protected-resource/mcp"
    headers = [("host", "127.0.0.1"), ("origin", origin)]
    async with guarded("call") as (_, app):
        response = await ask(app, method="GET", path=path, headers=headers)
        assert (response.status, response.headers["access-control-allow-origin"]) == (200, "*")
        asked = [*headers, ("access-control-request-headers", "mcp-protocol-version")]
        response = await ask(app, method="OPTIONS", path=path, headers=asked)
        assert (response.status, response.headers["access-control-allow-origin"]) == (204, "*")
        assert response.headers["access-control-allow-headers"] == "mcp-protocol-version"
        headers[0] = ("host", "evil.example")
        assert (await ask(app, method="GET", path=path, headers=headers)).status == 421


async def test_without_tokens_there_is_nothing_to_read() -> None:
    app = App(RequestPipeline(FakeGateway()))
    async with app.open():
        path = "/.well-known/oauth-protected-resource"
        headers = [("host", "127.0.0.1")]
        assert (await ask(app, method="GET", path=path, headers=headers)).status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse"), ("POST", "/messages"),
     ("GET", "/metrics"), ("POST", "/mcp-full/a")],
)  # fmt: skip
async def test_nothing_is_answered_to_nobody(method: str, path: str) -> None:
    async with guarded("admin") as (_, app):
        headers = [("host", "127.0.0.1")]
        assert (await ask(app, method=method, path=path, headers=headers)).status == 401


async def test_metrics_are_for_operators() -> None:
    headers = [("host", "127.0.0.1"), ("x-api-key", "ann")]
    async with guarded("call", "read", "register") as (_, app):
        assert (await ask(app, method="GET", path="/metrics", headers=headers)).status == 403
    async with guarded("admin") as (_, app):
        assert (await ask(app, method="GET", path="/metrics", headers=headers)).status == 200
    async with guarded("admin", tenant="other") as (_, app):
        assert (await ask(app, method="GET", path="/metrics", headers=headers)).status == 403


async def test_whoever_asks_too_often_is_told_when_to_come_back() -> None:
    async with guarded("call", calls_per_minute=1) as (gateway, app):
        header = ("x-api-key", "ann")
        assert (await send(app, CALL, header)).status == 200
        response = await send(app, CALL, header)
        assert response.status == 429
        assert int(response.headers["retry-after"]) >= 1
        assert response.error[1]["code"] == -32011
        assert len(gateway.heard) == 1
        wanted = {"resourceSubscriptions": ["file:///a"]}
        watching = modern_request("subscriptions/listen", {"notifications": wanted})
        assert (await send(app, watching, header)).status == 429
        # Another caller has a measure of their own, and lists are not counted.
        assert (await send(app, CALL, ("x-api-key", "bob"))).status == 200
        assert (await send(app, LIST, header)).status == 200
        # This can never be admitted, so the caller is not told to come back.
        wanted["resourceSubscriptions"].append("file:///b")
        response = await send(app, watching, header)
        assert (response.status, response.error[1]["code"]) == (400, -32602)
        assert "1 calls a minute" in response.error[1]["message"]
        assert "retry-after" not in response.headers


@pytest.mark.parametrize(
    "refused", [b"{", b'{"a": 1}', b"[" + b"{}," * 100_000 + b"{}]"], ids=["cut", "other", "large"]
)
@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
async def test_a_message_that_cannot_be_read_counts_as_a_call(refused: bytes, version: str) -> None:
    async with guarded("call", calls_per_minute=1) as (gateway, app):
        header = ("x-api-key", "ann")
        given = {**modern_headers(CALL), "mcp-protocol-version": version}
        pairs = [("host", "127.0.0.1"), *given.items(), header]
        assert (await ask(app, refused, headers=pairs)).status in (400, 413)
        assert (await send(app, CALL, header)).status == 429
        assert not gateway.heard
        # A list is free, and another caller is not affected.
        assert (await send(app, LIST, header)).status == 200
        assert (await send(app, CALL, ("x-api-key", "bob"))).status == 200


async def test_a_large_body_of_a_caller_that_has_to_wait_is_not_read() -> None:
    async with guarded("call", calls_per_minute=1) as (_, app):
        header = ("x-api-key", "ann")
        assert (await send(app, CALL, header)).status == 200
        # It would be refused as unreadable if it were read.
        pairs = [("host", "127.0.0.1"), *modern_headers(CALL).items(), header]
        response = await ask(app, b"{" * 70_000, headers=pairs)
        assert response.status == 429
        assert int(response.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("scope", "differing", "fitting"), [("call", 400, 200), ("read", 403, 403)]
)
async def test_who_may_not_call_a_tool_does_not_learn_what_it_wants_in_headers(
    scope: Scope, differing: int, fitting: int
) -> None:
    region = {"type": "string", "x-mcp-header": "Region"}
    body = modern_request("tools/call", {"name": "echo", "arguments": {"region": "eu"}})
    async with guarded(scope) as (gateway, app):
        gateway.schemas["echo"] = {"type": "object", "properties": {"region": region}}
        assert (await send(app, body, ("x-api-key", "ann"))).status == differing
        del gateway.schemas["echo"]
        assert (await send(app, body, ("x-api-key", "ann"))).status == fitting
