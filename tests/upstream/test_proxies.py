"""Proxies: which one leads to a server, and that requests go through it."""

import pytest
from anyio.abc import SocketStream

from pegboard.upstream.http.pool import HttpPool
from pegboard.upstream.http.proxies import proxy_for
from tests.upstream.http_clients import post
from tests.upstream.http_servers import answer, config_for, read_request, serving_raw

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
    assert proxy_for(url, None, PROXIES) == expected


def test_a_star_switches_proxies_off() -> None:
    assert proxy_for("http://other.net", None, {"all": "http://p", "no": "*"}) is None
    assert proxy_for("http://other.net", None, {"all": "http://p"}) == "http://p"


@pytest.mark.parametrize(
    ("configured", "expected"),
    [("", None), ("own:3128", "http://own:3128"), ("http://own:3128", "http://own:3128")],
)
@pytest.mark.parametrize("url", ["http://other.net", "http://example.com", "http://127.0.0.1"])
def test_the_proxy_in_the_entry_of_a_server_outranks_the_environment(
    url: str, configured: str, expected: str | None
) -> None:
    assert proxy_for(url, configured, PROXIES) == expected


async def test_a_plain_server_behind_a_proxy_is_asked_through_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []

    async def handle(stream: SocketStream) -> None:
        head, _ = await read_request(stream)
        asked.append(head)
        await stream.send(answer("200 OK", b"{}", content_type="application/json"))

    async with serving_raw(handle) as proxy:
        monkeypatch.setenv("http_proxy", proxy.replace("://", "://me:secret@"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        config = config_for("http://upstream.invalid/mcp")
        async with HttpPool() as pool, pool.client_for(config) as client:
            await post(client)
    [head] = asked
    assert head.startswith(b"POST http://upstream.invalid/mcp HTTP/1.1\r\n")
    assert b"\r\nproxy-authorization: basic bwu6c2vjcmv0" in head.lower()
