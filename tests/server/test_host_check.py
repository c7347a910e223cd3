"""Which names and origins a request may come under."""

import pytest

from pegboard.server import App, HostCheck, RequestPipeline
from tests.server.asgi import Answer, ask
from tests.server.fake_gateway import FakeGateway


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8765",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:1",
        "[::1]:80",
        "10.1.2.3",
    ],
)
def test_addresses_and_this_machine_are_always_meant(host: str) -> None:
    assert HostCheck().permits_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[::1",
        "a b",
        "@",
        "::",
    ],
)
def test_a_foreign_name_is_not_meant(host: str) -> None:
    assert not HostCheck().permits_host(host)


def test_names_that_the_operator_gave_are_meant() -> None:
    hosts = HostCheck(names=["Tools.Example.com"])
    assert hosts.permits_host("tools.example.com:443")
    assert not hosts.permits_host("other.example.com")


@pytest.mark.parametrize("origin", ["http://localhost:6274", "http://127.0.0.1", "https://[::1]:3"])
def test_local_pages_may_talk_to_us(origin: str) -> None:
    assert HostCheck().permits_origin(origin)


@pytest.mark.parametrize(
    "origin",
    ["null", "", "https://evil.example", "http://localhost.evil.example", "http://[", "file://"],
)
def test_foreign_pages_may_not(origin: str) -> None:
    assert not HostCheck().permits_origin(origin)


def test_pages_that_the_operator_named_may() -> None:
    hosts = HostCheck(origins=["https://app.example.com/"])
    assert hosts.permits_origin("https://app.example.com")
    assert not hosts.permits_origin("https://app.example.com:8443")


async def get(path: str, **headers: str) -> Answer:
    app = App(RequestPipeline(FakeGateway()))
    pairs = {"host": "127.0.0.1", **headers}.items()
    async with app.open():
        return await ask(app, method=headers.pop("method", "GET"), path=path, headers=pairs)


@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages", "/metrics"])
async def test_every_face_is_guarded_against_rebinding(path: str) -> None:
    assert (await get(path, host="evil.example")).status == 421
    assert (await get(path, origin="https://evil.example")).status == 403


@pytest.mark.parametrize("name", ["host", "origin"])
@pytest.mark.parametrize("second", ["http://localhost", "http://evil.example"])
async def test_a_header_that_says_where_from_or_where_to_comes_once(name: str, second: str) -> None:
    app = App(RequestPipeline(FakeGateway()))
    headers = [("host", "localhost"), ("origin", "http://localhost"), (name, second)]
    async with app.open():
        response = await ask(app, method="GET", path="/metrics", headers=headers)
    assert response.status == 400
    assert name.capitalize() in response.error[1]["message"]


async def test_health_is_told_under_any_name() -> None:
    assert (await get("/healthz", host="10-0-0-1.pods.example")).status == 200


async def test_a_page_that_may_is_told_so() -> None:
    response = await get("/metrics", origin="http://localhost:6274")
    assert response.status == 200
    assert response.headers["access-control-allow-origin"] == "http://localhost:6274"
    assert "mcp-session-id" in response.headers["access-control-expose-headers"]


async def test_a_browser_may_ask_before_it_sends() -> None:
    app = App(RequestPipeline(FakeGateway()))
    headers = {
        "host": "127.0.0.1",
        "origin": "http://localhost:6274",
        "access-control-request-headers": "mcp-method, content-type",
    }
    async with app.open():
        response = await ask(app, method="OPTIONS", headers=headers.items())
    assert response.status == 204
    assert response.headers["access-control-allow-headers"] == "mcp-method, content-type"
    assert "POST" in response.headers["access-control-allow-methods"]
