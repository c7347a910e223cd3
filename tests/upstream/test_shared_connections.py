"""Connections: shared by all clients of a pool, through a proxy where one is wanted."""

import httpx2
import pytest
from anyio.abc import SocketStream

from pegboard.upstream.http.client import HttpPool
from pegboard.upstream.http.shared_connections import proxy_for
from tests.upstream.http_clients import (
    failure_from,
    post,
)
from tests.upstream.http_servers import (
    answer,
    config_for,
    read_request,
    serving_raw,
)

PROXIES = {
    "http": "proxy:3128",
    "https": "http://proxy:3129",
    "no": "example.com, .only-below.org,10.0.0.0/8,[2001:db8::]/32,port.net:8080",
}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://other.net/", "http://proxy:3128"),
        ("https://other.net/", "http://proxy:3129"),
        ("http://localhost:9/", None),
        ("https://app.localhost/", None),
        ("http://127.0.0.1/", None),
        ("http://127.8.8.8/", None),
        ("http://[::1]:80/", None),
        ("http://example.com/", None),
        ("http://www.EXAMPLE.com/", None),
        ("http://badexample.com/", "http://proxy:3128"),
        ("http://www.only-below.org/", None),
        ("http://10.1.2.3/", None),
        ("http://11.1.2.3/", "http://proxy:3128"),
        ("http://port.net:8080/", None),
        ("http://port.net/", "http://proxy:3128"),
    ],
)
def test_the_proxies_of_the_environment_are_respected(url: str, expected: str | None) -> None:
    assert proxy_for(httpx2.URL(url), PROXIES) == expected


def test_a_star_switches_proxies_off() -> None:
    assert proxy_for(httpx2.URL("http://other.net"), {"all": "http://p", "no": "*"}) is None
    assert proxy_for(httpx2.URL("http://other.net"), {"all": "http://p"}) == "http://p"


async def test_a_plain_server_behind_a_proxy_is_asked_through_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []

    async def handle(stream: SocketStream) -> None:
        head, _ = await read_request(stream)
        asked.append(head.split(b"\r\n")[0])
        await stream.send(answer("200 OK", b"{}", content_type="application/json"))

    async with serving_raw(handle) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with HttpPool() as pool:
            url = "http://upstream.invalid/mcp"
            await post(pool.client_for(config_for(url)), url)
    assert asked == [b"POST http://upstream.invalid/mcp HTTP/1.1"]


async def test_nothing_is_sent_over_a_pool_that_is_closed() -> None:
    async with HttpPool() as pool:
        client = pool.client_for(config_for("http://127.0.0.1:1"))
    assert failure_from(await post(client, "http://127.0.0.1:1")).kind == "not_sent"


async def test_clients_of_one_pool_share_its_connections_and_survive_each_other() -> None:
    opened = 0

    async def handle(stream: SocketStream) -> None:
        nonlocal opened
        opened += 1
        while True:
            await read_request(stream)
            await stream.send(answer("200 OK", b"{}", content_type="application/json"))

    async with serving_raw(handle) as origin, HttpPool() as pool:
        for _ in range(3):
            async with pool.client_for(config_for(origin)) as client:
                assert (await post(client, origin)).status_code == 200
    assert opened == 1
