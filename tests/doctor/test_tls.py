"""What the doctor finds where TLS or a proxy is in the way, and the remedy it gives."""

import re
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import anyio.abc
import pytest
from anyio.streams.tls import TLSStream

from pegboard.doctor import Finding
from tests.doctor.patients import codes, diagnosis, found_in
from tests.tls import Authority, listening, self_signed, server_context
from tests.upstream.http_servers import build_server, read_request, serving, serving_raw

INTERNAL_ERROR = b"\x15\x03\x03\x00\x02\x02\x50"
"""An alert of TLS."""


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """An authority that this machine trusts."""
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    return authority


@asynccontextmanager
async def serving_tls(context: ssl.SSLContext) -> AsyncGenerator[str]:
    """A server that speaks nothing but TLS; gives its address."""

    async def handle(stream: anyio.abc.SocketStream) -> None:
        try:
            secure = await TLSStream.wrap(stream, server_side=True, ssl_context=context)
            await secure.receive()
        except ssl.SSLError:
            return

    async with serving_raw(handle) as origin:
        yield origin.replace("http:", "https:") + "/mcp"


def _moment_in(text: str) -> datetime:
    found = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", text)
    assert found is not None
    return datetime.fromisoformat(f"{found[0]}+00:00")


@pytest.mark.parametrize(
    ("days", "code", "words"),
    [
        ((-9, -1), "tls_expired", "has expired (it was valid until"),
        ((1, 9), "tls_not_yet_valid", "is not valid yet (it is valid from"),
    ],
)
async def test_a_certificate_at_the_wrong_time_is_told(
    authority: Authority, days: tuple[int, int], code: str, words: str
) -> None:
    async with serving_tls(server_context(authority.sign(days=days))) as url:
        finding = await diagnosis({"url": url}, code)
    assert words in finding.what
    day = datetime.now(UTC) + timedelta(days=max(days) if max(days) < 0 else min(days))
    assert abs(day - _moment_in(finding.what)) < timedelta(hours=1)
    assert "clock of this machine" in finding.remedy


async def test_a_certificate_of_another_name_is_told(authority: Authority) -> None:
    async with serving_tls(server_context(authority.sign("127.0.0.2"))) as url:
        await diagnosis({"url": url}, "tls_wrong_name")


async def test_a_certificate_that_nobody_has_signed_is_told(tmp_path: Path) -> None:
    async with serving_tls(server_context(self_signed(tmp_path))) as url:
        finding = await diagnosis({"url": url}, "tls_untrusted")
    assert "self-signed" in finding.what
    assert '"tls": {"ca": "FILE"}' in finding.remedy
    assert "SSL_CERT_FILE" in finding.remedy


async def test_a_certificate_of_an_unknown_authority_is_told(tmp_path: Path) -> None:
    async with serving_tls(server_context(Authority(tmp_path).sign())) as url:
        finding = await diagnosis({"url": url}, "tls_untrusted")
    assert "unknown CA" in finding.what


async def test_a_websocket_with_a_bad_certificate_is_told(authority: Authority) -> None:
    async with serving_tls(server_context(authority.sign(days=(-9, -1)))) as url:
        await diagnosis({"url": url.replace("https:", "wss:")}, "tls_expired")


async def test_a_client_certificate_that_is_missing_is_told(authority: Authority) -> None:
    with listening(server_context(authority.sign(), client_ca=authority.ca)) as port:
        url = f"https://127.0.0.1:{port}/mcp"
        finding = await diagnosis({"url": url}, "tls_client_certificate")
    assert "requires a client certificate" in finding.what
    assert '"client_cert"' in finding.remedy


async def test_a_client_certificate_that_is_refused_is_told_with_its_file(
    authority: Authority, tmp_path: Path
) -> None:
    foreign = Authority(tmp_path, "foreign").sign()
    with listening(server_context(authority.sign(), client_ca=authority.ca)) as port:
        entry = {"url": f"https://127.0.0.1:{port}/mcp", "tls": {"client_cert": str(foreign)}}
        finding = await diagnosis(entry, "tls_client_certificate")
    assert "does not know the CA" in finding.what
    assert str(foreign) in finding.remedy


async def test_a_server_of_old_tls_only_is_told(authority: Authority) -> None:
    context = server_context(authority.sign())
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with listening(context) as port:
        finding = await diagnosis({"url": f"https://127.0.0.1:{port}/mcp"}, "tls_version")
    assert "TLS 1.2" in finding.remedy


async def test_a_handshake_that_hangs_is_told() -> None:
    async def listen(stream: anyio.abc.SocketStream) -> None:
        await anyio.sleep_forever()

    async with serving_raw(listen) as origin:
        url = origin.replace("http:", "https:") + "/mcp"
        finding = await diagnosis({"url": url}, "tls_no_answer", seconds=0.5)
    assert "did not finish the TLS handshake" in finding.what


async def test_a_handshake_that_the_server_ends_is_told() -> None:
    async def hang_up(stream: anyio.abc.SocketStream) -> None:
        await stream.receive()

    async with serving_raw(hang_up) as origin:
        url = origin.replace("http:", "https:") + "/mcp"
        finding = await diagnosis({"url": url}, "tls_closed")
    assert "closed the connection during the TLS handshake" in finding.what


async def test_https_to_a_server_of_plain_http_is_told_with_the_right_address() -> None:
    async with serving(build_server().streamable_http_app()) as origin:
        url = origin.replace("http:", "https:") + "/mcp"
        finding = await diagnosis({"url": url}, "tls_not_spoken")
    assert f'"url": "{origin}/mcp"' in finding.remedy


async def test_http_to_a_server_of_https_is_told_with_the_right_address(
    authority: Authority,
) -> None:
    async with serving_tls(server_context(authority.sign())) as url:
        finding = await diagnosis({"url": url.replace("https:", "http:")}, "tls_expected")
    assert f'"url": "{url}"' in finding.remedy


async def test_a_file_of_tls_that_is_missing_is_told_with_its_setting(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    entry = {"url": "https://127.0.0.1:9/mcp", "tls": {"ca": str(missing)}}
    finding = await diagnosis(entry, "bad_tls")
    assert "`tls.ca`" in finding.what
    assert str(missing) in finding.what


async def test_a_proxy_where_nothing_listens_is_told() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        proxy = f"127.0.0.1:{closed.getsockname()[1]}"
        entry = {"url": "https://api.invalid/mcp", "proxy": f"http://{proxy}"}
        finding = await diagnosis(entry, "proxy_unreachable")
    assert f"The proxy {proxy} on the way to server 'it'" in finding.what
    assert '"proxy": false' in finding.remedy


async def of_proxy(status: bytes, *, proxy: str = "http://{}") -> list[Finding]:
    """What is found where a proxy has that answer to everything."""

    async def handle(stream: anyio.abc.SocketStream) -> None:
        head, _ = await read_request(stream)
        assert head.startswith(b"CONNECT api.invalid:443 HTTP/1.1\r\n")
        await stream.send(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")

    async with serving_raw(handle) as origin:
        place = proxy.format(origin.removeprefix("http://"))
        return await found_in({"url": "https://api.invalid/mcp", "proxy": place})


async def test_a_proxy_that_wants_a_password_is_told() -> None:
    (finding,) = await of_proxy(b"407 Proxy Authentication Required")
    assert finding.code == "proxy_refused"
    assert "HTTP 407" in finding.what
    assert "${PROXY_PASSWORD}" in finding.remedy


async def test_the_password_of_a_proxy_is_not_told() -> None:
    findings = await of_proxy(b"407 Wrong", proxy="http://me:canary-1234@{}")
    assert codes(findings) == ["plain_secret", "proxy_refused"]
    assert "canary" not in str(findings)


@pytest.mark.parametrize("status", [b"403 Forbidden", b"502 Bad Gateway"])
async def test_a_proxy_that_does_not_connect_is_told(status: bytes) -> None:
    (finding,) = await of_proxy(status)
    assert finding.code == "proxy_refused"
    assert status.decode() in finding.what


async def test_a_proxy_that_closes_the_connection_is_told() -> None:
    async def hang_up(stream: anyio.abc.SocketStream) -> None:
        await read_request(stream)

    async with serving_raw(hang_up) as proxy:
        entry = {"url": "https://api.invalid/mcp", "proxy": proxy}
        finding = await diagnosis(entry, "proxy_unreachable")
    assert "closes the connection without an answer" in finding.what


async def test_another_failure_of_the_handshake_is_told_with_its_name() -> None:
    with listening(None, INTERNAL_ERROR) as port:
        finding = await diagnosis({"url": f"https://127.0.0.1:{port}/mcp"}, "tls_failed")
    assert "internal error" in finding.what
