"""Responses of a hosted server that are no proper HTTP, or not the answer to the request."""

import gzip
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

from pegboard import ConnectionLostError, Hub, ProtocolError, UpstreamError
from tests.upstream.board_servers import hub_of, until
from tests.upstream.hosted import (
    PLAIN,
    STREAM,
    Host,
    HostedServer,
    call,
    config_of,
    event,
    listening,
    result,
    saying,
    whole,
)
from tests.upstream.http_servers import answer

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


async def failure(hub: Hub) -> UpstreamError:
    with pytest.raises((ConnectionLostError, ProtocolError)) as caught:
        await call(hub)
    assert caught.value.sent
    assert caught.value.server == "it"
    return caught.value


def once(bad: bytes) -> Any:
    """Answer the first call with these bytes and hang up; answer the others properly."""
    is_first = True

    async def say(stream: ByteStream, request: dict[str, Any]) -> None:
        nonlocal is_first
        if not is_first:
            await stream.send(whole(request))
            return
        is_first = False
        await stream.send(bad)
        await stream.aclose()

    return say


@pytest.mark.parametrize(
    "bad",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/1.1 abc Hello\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"5\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"ffffffffffffffffff\r\n{}",
        CHUNKED + b"2\r\n{}\r\n",
        b"\x00\xff\xfe",
        b"",
    ],
)
async def test_what_is_no_http_fails_its_own_call_which_is_sent_once(
    host: Host, bad: bytes
) -> None:
    async with host.hub(once(bad)) as (hub, server):
        await failure(hub)
        assert len(server.calls) == 1
        assert await call(hub) == "done"
        assert len(server.calls) == 2


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_second_answer_to_one_request_reaches_no_other_caller(
    host: Host, is_late: bool
) -> None:
    smuggle = anyio.Event()

    async def say(stream: ByteStream, request: dict[str, Any]) -> None:
        if len(server.calls) > 1:
            await stream.send(whole(request, "honest"))
            return
        forged = b"".join(whole({"id": request["id"] + ahead}, "smuggled") for ahead in range(1, 5))
        if not is_late:
            await stream.send(whole(request, "first") + forged)
            return
        await stream.send(whole(request, "first"))
        await smuggle.wait()
        await stream.send(forged)

    async with host.hub(say) as (hub, server):
        assert await call(hub) == "first"
        smuggle.set()
        if is_late:
            # Bytes that come before the next request end the connection, or it is not used again.
            with anyio.move_on_after(0.3):
                await until(lambda: not server.open_connections)
        for _ in range(3):
            assert await call(hub) == "honest"
        assert len(server.calls) == 4


async def test_a_length_and_chunks_in_one_answer_smuggle_nothing(host: Host) -> None:
    def both(request: dict[str, Any]) -> bytes:
        forged = whole({"id": request["id"] + 1}, "smuggled")
        body = result(request)
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        return answer("200 OK", chunks + forged, transfer_encoding="chunked", **PLAIN)

    async with host.hub(saying(both)) as (hub, server):
        for _ in range(3):
            try:
                assert await call(hub) == "done"
            except (ConnectionLostError, ProtocolError):
                continue
        assert len(server.calls) == 3


async def test_the_answer_to_another_request_is_not_taken(host: Host) -> None:
    def foreign(request: dict[str, Any]) -> bytes:
        return whole({"id": request["id"] + 7}, "not yours")

    async with host.hub(saying(foreign)) as (hub, server):
        await failure(hub)
        assert len(server.calls) == 1
        server.say = saying(whole)
        assert await call(hub) == "done"


async def test_the_answer_to_another_request_in_a_stream_is_passed_over(host: Host) -> None:
    def stream_of(request: dict[str, Any]) -> bytes:
        foreign = result({"id": request["id"] + 7}, "not yours")
        return answer("200 OK", event(foreign) + event(result(request)), **STREAM)

    async with host.hub(saying(stream_of)) as (hub, _):
        assert [await call(hub), await call(hub)] == ["done", "done"]


@pytest.mark.parametrize(
    "early",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n",
    ],
)
async def test_informational_answers_come_before_the_answer(host: Host, early: bytes) -> None:
    async with host.hub(saying(lambda it: early + whole(it))) as (hub, server):
        assert [await call(hub), await call(hub)] == ["done", "done"]
        assert len(server.calls) == 2


async def test_an_encoding_that_was_not_asked_for_is_an_error(host: Host) -> None:
    def packed(request: dict[str, Any]) -> bytes:
        body = gzip.compress(result(request))
        return answer("200 OK", body, content_encoding="gzip", **PLAIN)

    async with host.hub(saying(packed)) as (hub, server):
        assert isinstance(await failure(hub), ProtocolError)
        assert "accept-encoding: identity" in server.calls[0].head.lower()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "nonsense"])
async def test_an_encoding_that_cannot_be_decoded_is_an_error(host: Host, encoding: str) -> None:
    junk = answer("200 OK", b"\x00junk", content_encoding=encoding, **PLAIN)
    async with host.hub(saying(lambda _: junk)) as (hub, server):
        error = await failure(hub)
        assert isinstance(error, ProtocolError)
        assert len(server.calls) == 1


async def test_a_redirect_to_another_origin_is_refused_and_sends_no_credentials(
    host: Host,
) -> None:
    async with listening(host.server(saying(whole))) as thief:

        def away(_: dict[str, Any]) -> bytes:
            return answer("307 Temporary Redirect", location=thief.url)

        async with host.hub(saying(away), bearer_token="very-secret-token") as (hub, server):
            with pytest.raises(UpstreamError) as caught:
                await call(hub)
            assert "very-secret-token" not in str(caught.value)
            assert len(server.calls) == 1
        assert thief.connections == 0


async def test_a_redirect_from_https_to_http_is_refused(secure_host: Host) -> None:
    async with listening(HostedServer(saying(whole))) as plain:
        plain_url = plain.url

        def down(_: dict[str, Any]) -> bytes:
            return answer("307 Temporary Redirect", location=plain_url)

        async with secure_host.hub(saying(down)) as (hub, _):
            with pytest.raises(UpstreamError):
                await call(hub)
        assert plain.connections == 0


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
async def test_a_redirect_within_the_origin_is_followed(host: Host, status: str) -> None:
    def moved(request: dict[str, Any]) -> bytes:
        if "POST /mcp " in server.calls[-1].head:
            return answer(status, location="/moved?here=1")
        return whole(request)

    async with host.hub(saying(moved), bearer_token="very-secret-token") as (hub, server):
        assert await call(hub) == "done"
        heads = [it.head for it in server.calls]
        assert [it.split()[1] for it in heads] == ["/mcp", "/moved?here=1"]
        assert all("very-secret-token" in it for it in heads)


async def test_a_circle_of_redirects_ends(host: Host) -> None:
    async with host.hub(saying(lambda _: answer("307 Temporary Redirect", location="/mcp"))) as (
        hub,
        server,
    ):
        with pytest.raises(UpstreamError):
            await call(hub)
        assert len(server.calls) < 50


async def test_cookies_reach_no_other_server_and_no_other_hub(host: Host) -> None:
    def sweet(request: dict[str, Any]) -> bytes:
        return whole(request, set_cookie="session=of-the-first; Path=/")

    async with (
        host.hub(saying(sweet)) as (hub, server),
        listening(host.server(saying(whole))) as neighbour,
        hub_of(config_of(server), config_of(neighbour, "neighbour")) as other,
    ):
        for _ in range(2):
            assert await call(hub) == "done"
        before = len(server.heads)
        assert await call(other) == "done"
        await other.call("mcp_neighbour_go")
        theirs = [*server.heads[before:], *neighbour.heads]
        assert theirs
        assert not [it for it in theirs if "cookie" in it.lower()]
        assert await call(other) == "done"
        assert await other.call("mcp_neighbour_go")
        assert not [it for it in neighbour.heads if "cookie" in it.lower()]
