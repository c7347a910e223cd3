"""Headers: swapped at run time, checked, and those of the protocol kept out."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pegboard.errors import ConfigError
from pegboard.upstream.http.headers import checked_headers, configured_headers
from pegboard.upstream.http.pool import HttpPool
from pegboard.version import installed_version
from tests.upstream.http_clients import (
    post,
)
from tests.upstream.http_servers import (
    config_for,
    serving,
)

VERSION = installed_version()


@pytest.mark.covers("X-AS-9")
async def test_runtime_headers_are_swapped_without_reconnecting() -> None:
    seen: list[tuple[str | None, ...]] = []

    async def endpoint(request: Request) -> Response:
        names = ("x-static", "x-tenant", "x-trace", "authorization")
        seen.append(tuple(request.headers.get(name) for name in names))
        return JSONResponse({})

    app = Starlette(routes=[Route("/", endpoint, methods=["POST"])])
    async with serving(app) as origin, HttpPool() as pool:
        config = config_for(origin, headers={"X-Static": "1"}, bearer_token="very-secret-token")
        async with pool.client_for(config) as client:
            await post(client)
            client.set_headers({"X-Tenant": "a", "X-STATIC": "2"})
            await post(client)
            client.set_headers({"x-trace": "b", "Authorization": "Basic eA=="})
            await post(client)
            client.set_headers({})
            await post(client)
    own = "Bearer very-secret-token"
    assert seen == [
        ("1", None, None, own),
        ("2", "a", None, own),
        ("1", None, "b", "Basic eA=="),
        ("1", None, None, own),
    ]


@pytest.mark.covers("X-AS-9")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Evil", "a\r\nX-Other: b"),
        ("X-Evil", "a\nb"),
        ("X-Evil", "a\0b"),
        ("X-Evil", "ü"),
        ("X Evil", "a"),
        ("X-Evil:", "a"),
        ("", "a"),
        ("Content-Type", "text/plain"),
        ("accept", "*/*"),
        ("Host", "example.com"),
        ("Content-Length", "1"),
        ("Last-Event-ID", "1"),
        ("Mcp-Session-Id", "1"),
        ("MCP-Protocol-Version", "1"),
    ],
)
async def test_a_header_that_is_illegal_or_reserved_is_refused(name: str, value: str) -> None:
    seen: list[dict[str, str]] = []
    async with (
        noting(seen) as origin,
        HttpPool() as pool,
        pool.client_for(config_for(origin)) as client,
    ):
        await post(client)
        with pytest.raises(ConfigError):
            client.set_headers({"X-Fine": "1", name: value})
        await post(client)
    assert seen[0] == seen[1]


@given(
    name=st.text(max_size=20) | st.sampled_from(["X-A", "accept", "mcp-x"]),
    value=st.text(max_size=20),
)
def test_whatever_is_accepted_as_a_header_can_be_sent(name: str, value: str) -> None:
    try:
        [(sent, said)] = checked_headers({name: value}).items()
    except ConfigError:
        return
    assert (sent, said) == (name.lower(), value)
    assert re.fullmatch(r"[!#$%&'*+.^_`|~0-9a-z-]+", sent)
    assert re.fullmatch(r"([\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?)?", said)


async def test_headers_of_the_protocol_in_a_configuration_are_left_out() -> None:
    seen: list[dict[str, str]] = []
    headers = {"Accept": "text/html", "Content-Type": "text/plain", "X-Fine": "1"}
    async with (
        noting(seen) as origin,
        HttpPool() as pool,
        pool.client_for(config_for(origin, headers=headers)) as client,
    ):
        await post(client)
    [sent] = seen
    assert sent["x-fine"] == "1"
    assert sent["accept"] == "application/json, text/event-stream"
    assert sent["content-type"] == "application/json"


async def test_requests_say_that_they_come_from_pegboard_unless_the_entry_says_otherwise() -> None:
    """Some firewalls refuse requests that do not say from which program they come."""
    seen: list[dict[str, str]] = []
    async with noting(seen) as origin, HttpPool() as pool:
        for headers in ({}, {"User-Agent": "mine"}):
            async with pool.client_for(config_for(origin, headers=headers)) as client:
                await post(client)
    assert [it["user-agent"] for it in seen] == [f"pegboard/{VERSION}", "mine"]


def test_a_header_of_the_protocol_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    config = config_for("https://x.test/mcp", headers={"Mcp-Session-Id": "1", "X-Own": "2"})
    assert configured_headers(config) == {"x-own": "2"}
    said = "header_ignored: 'Mcp-Session-Id' of server 'remote' belongs to the protocol"
    assert caplog.messages == [said]


@asynccontextmanager
async def noting(seen: list[dict[str, str]]) -> AsyncGenerator[str]:
    """Run a server that notes the headers of each request; gives its origin."""

    async def endpoint(request: Request) -> Response:
        seen.append(dict(request.headers))
        return JSONResponse({})

    async with serving(Starlette(routes=[Route("/", endpoint, methods=["POST"])])) as origin:
        yield origin
