"""Headers: swapped at run time, checked, and those of the protocol kept out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pegboard.errors import ConfigError
from pegboard.upstream.http.client import HttpPool
from pegboard.upstream.http.headers import configured_headers
from tests.upstream.http_clients import (
    post,
)
from tests.upstream.http_servers import (
    config_for,
    serving,
)


@pytest.mark.covers("X-AS-9")
async def test_runtime_headers_are_swapped_without_reconnecting() -> None:
    seen: list[tuple[str | None, ...]] = []

    async def endpoint(request: Request) -> Response:
        names = ("x-static", "x-tenant", "x-trace", "authorization")
        seen.append(tuple(request.headers.get(name) for name in names))
        return JSONResponse({})

    app = Starlette(routes=[Route("/", endpoint, methods=["POST"])])
    async with serving(app) as origin, HttpPool() as pool:
        client = pool.client_for(
            config_for(origin, headers={"X-Static": "1"}, bearer_token="very-secret-token")
        )
        await post(client, origin)
        client.set_runtime_headers({"X-Tenant": "a", "X-STATIC": "2"})
        await post(client, origin)
        client.set_runtime_headers({"x-trace": "b", "Authorization": "Basic eA=="})
        await post(client, origin)
        client.set_runtime_headers({})
        await post(client, origin)
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
    client = HttpPool().client_for(config_for("http://127.0.0.1"))
    before = dict(client.headers)
    with pytest.raises(ConfigError):
        client.set_runtime_headers({"X-Fine": "1", name: value})
    assert dict(client.headers) == before


@given(
    name=st.text(max_size=20) | st.sampled_from(["X-A", "accept", "mcp-x"]),
    value=st.text(max_size=20),
)
def test_whatever_is_accepted_as_a_header_can_be_sent(name: str, value: str) -> None:
    client = HttpPool().client_for(config_for("http://127.0.0.1"))
    try:
        client.set_runtime_headers({name: value})
    except ConfigError:
        return
    sent = client.build_request("POST", "http://127.0.0.1").headers
    assert sent[name] == value
    assert "\n" not in value


def test_headers_of_the_protocol_in_a_configuration_are_left_out() -> None:
    headers = {"Accept": "text/html", "Content-Type": "text/plain", "X-Fine": "1"}
    client = HttpPool().client_for(config_for("http://127.0.0.1", headers=headers))
    assert client.headers["x-fine"] == "1"
    assert client.headers["accept"] == "*/*"
    assert "content-type" not in client.headers


def test_a_header_of_the_protocol_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    config = config_for("https://x.test/mcp", headers={"Mcp-Session-Id": "1", "X-Own": "2"})
    assert configured_headers(config) == {"x-own": "2"}
    said = "header_ignored: 'Mcp-Session-Id' of server 'remote' belongs to the protocol"
    assert caplog.messages == [said]
