"""TLS and proxies work alike over streamable HTTP, server-sent events and WebSockets."""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.streams.tls import TLSStream
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from pegboard import ServerConfig
from pegboard.config import Timeouts, TlsConfig
from tests.tls import Authority, server_context
from tests.upstream.board_servers import hub_of
from tests.upstream.hosted import Proxy, introduction, result
from tests.upstream.http_servers import build_server, serving, serving_raw

EVERY = pytest.mark.parametrize("transport", ["streamable_http", "sse", "websocket"])


@asynccontextmanager
async def websocket_server() -> AsyncGenerator[str]:
    async def handle(connection: ServerConnection) -> None:
        async for text in connection:
            request = json.loads(text)
            is_call = request.get("method") == "tools/call"
            body = result(request) if is_call else introduction(request)
            if body is not None:
                await connection.send(body.decode())

    async with serve(handle, "127.0.0.1", 0, subprotocols=[Subprotocol("mcp")]) as running:
        yield f"http://127.0.0.1:{next(iter(running.sockets)).getsockname()[1]}"


@asynccontextmanager
async def behind_tls(origin: str, certificate: Path, **options: Any) -> AsyncGenerator[int]:
    """Offer a plain server over TLS; gives the port."""
    context = server_context(certificate, **options)
    port = int(origin.rpartition(":")[2])

    async def handle(client: SocketStream) -> None:
        try:
            secure = await TLSStream.wrap(client, server_side=True, ssl_context=context)
        except OSError:
            return
        async with (
            await anyio.connect_tcp("127.0.0.1", port) as server,
            anyio.create_task_group() as group,
        ):

            async def copy(source: Any, to: Any) -> None:
                async for chunk in source:
                    await to.send(chunk)
                group.cancel_scope.cancel()

            group.start_soon(copy, secure, server)
            group.start_soon(copy, server, secure)

    async with serving_raw(handle) as address:
        yield int(address.rpartition(":")[2])


@asynccontextmanager
async def hosted(
    transport: Any, certificate: Path, **options: Any
) -> AsyncGenerator[dict[str, Any]]:
    """Run a server with that certificate; gives the fields of its configuration."""
    async with AsyncExitStack() as stack:
        path, tool = "/mcp", "echo"
        if transport == "websocket":
            origin, path, tool = await stack.enter_async_context(websocket_server()), "", "go"
        elif transport == "sse":
            origin, path = (
                await stack.enter_async_context(serving(build_server().sse_app())),
                "/sse",
            )
        else:
            app = build_server().streamable_http_app()
            origin = await stack.enter_async_context(serving(app))
        port = await stack.enter_async_context(behind_tls(origin, certificate, **options))
        yield {
            "name": "it",
            "transport": transport,
            "url": f"{'wss' if transport == 'websocket' else 'https'}://127.0.0.1:{port}{path}",
            "protocol": "2026-07-28" if transport == "websocket" else "auto",
            "timeouts": Timeouts(connect=10, list=10, call=10),
            "tags": (tool,),
        }


async def calls(fields: dict[str, Any], **more: Any) -> None:
    """The server is reached, and its tool can be called."""
    (tool,) = fields["tags"]
    async with hub_of(ServerConfig(**fields, **more)) as hub:
        arguments = {"text": "done"} if tool == "echo" else {}
        assert (await hub.call(f"mcp_it_{tool}", arguments)).text() == "done"


async def why_down(fields: dict[str, Any], **more: Any) -> str:
    """The server is not reached; gives the reason."""
    async with hub_of(ServerConfig(**fields, **more)) as hub:
        assert hub.servers["it"].state.value == "down"
        return str(hub.servers["it"].last_error)


@EVERY
async def test_a_private_ca_is_trusted(transport: Any, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with hosted(transport, authority.sign()) as fields:
        await calls(fields, tls=TlsConfig(ca=str(authority.ca)))


@EVERY
@pytest.mark.parametrize(("days", "cause"), [((-9, -1), "has expired"), ((-1, 1), "unknown CA")])
async def test_a_certificate_that_is_not_accepted_is_named(
    transport: Any, tmp_path: Path, days: tuple[int, int], cause: str
) -> None:
    authority = Authority(tmp_path)
    tls = TlsConfig(ca=str(authority.ca)) if days == (-9, -1) else None
    async with hosted(transport, authority.sign(days=days)) as fields:
        message = await why_down(fields, tls=tls)
        assert cause in message
        assert "'127.0.0.1'" in message


@EVERY
async def test_a_client_certificate_is_shown(transport: Any, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = TlsConfig(ca=str(authority.ca), client_cert=str(authority.sign()))
    async with hosted(transport, authority.sign(), client_ca=authority.ca) as fields:
        await calls(fields, tls=tls)


@EVERY
async def test_a_file_that_cannot_be_read_is_named(transport: Any, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    async with hosted(transport, Authority(tmp_path).sign()) as fields:
        assert missing in await why_down(fields, tls=TlsConfig(ca=missing))


@EVERY
async def test_the_proxy_of_the_server_is_used(transport: Any, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with hosted(transport, authority.sign()) as fields, Proxy().listening() as proxy:
        await calls(fields, tls=TlsConfig(ca=str(authority.ca)), proxy=proxy.url)
        assert {it.split()[0] for it in proxy.heads} == {"CONNECT"}


@EVERY
async def test_a_proxy_that_refuses_is_named(transport: Any, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    async with hosted(transport, authority.sign()) as fields, Proxy(refusal).listening() as proxy:
        tls = TlsConfig(ca=str(authority.ca))
        message = await why_down(fields, tls=tls, proxy=proxy.url)
        assert "407" in message
        assert "proxy" in message.lower()
