"""What a long session does when the server forgets it, or is gone."""

from typing import Any

import anyio
import mcp_types as types
import pytest

from pegboard import ConnectionLostError, ServerConfig, ServerState, ServerTimeoutError
from tests.upstream.board_servers import Bench, hub_of, limits, memory
from tests.upstream.http_servers import build_server, cutting_proxy, serving


class Restarted:
    """A server behind HTTP that begins anew, without its sessions, whenever it is told to."""

    def __init__(self) -> None:
        self.gone: set[bytes] = set()
        self.seen: set[bytes] = set()
        self._app: Any = build_server().streamable_http_app()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        session = dict(scope.get("headers", ())).get(b"mcp-session-id")
        if session is not None:
            self.seen.add(session)
        if session not in self.gone:
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def restart(self) -> None:
        self.gone |= self.seen


@pytest.mark.parametrize("stateless", [True, False], ids=["stateless", "stateful"])
async def test_lists_are_read_over_a_new_session_after_a_server_has_forgotten_ours(
    stateless: bool,
) -> None:
    server = Restarted()
    async with serving(server) as origin:
        url = f"{origin}/mcp"
        config = ServerConfig(
            name="web",
            transport="streamable_http",
            url=url,
            protocol="legacy",
            stateless=stateless,
        )
        async with hub_of(config) as hub:
            remote = hub.server("web")
            with anyio.fail_after(5):
                server.restart()
                await remote.list_all("resources/list")
                assert hub.servers["web"].starts == 2
                server.restart()
                await remote.refresh()
                assert hub.servers["web"].starts == 3
            assert hub.servers["web"].state == ServerState.READY


async def test_a_server_whose_connection_breaks_while_it_is_listed_is_down() -> None:
    app = build_server().streamable_http_app()
    async with serving(app) as origin, cutting_proxy(origin, b"resources/list") as proxy:
        config = ServerConfig(
            name="web", transport="streamable_http", url=f"{proxy}/mcp", lazy=True
        )
        async with hub_of(config) as hub:
            with anyio.fail_after(5), pytest.raises(ConnectionLostError):
                await hub.server("web").list_all("resources/list")
            assert hub.servers["web"].state == ServerState.DOWN
            assert (await hub.call("mcp_web_echo", {"text": "hi"})).text() == "hi"


async def test_a_list_that_takes_too_long_does_not_cost_the_session() -> None:
    async def hang(*_: object) -> types.EmptyResult:
        await anyio.sleep_forever()
        raise AssertionError

    bench = Bench(one=lambda _: "1")
    bench.server.add_request_handler("resources/list", types.PaginatedRequestParams, hang)
    async with hub_of(memory("calc", bench, timeouts=limits(list=0.05))) as hub:
        with anyio.fail_after(5), pytest.raises(ServerTimeoutError):
            await hub.server("calc").list_all("resources/list")
        assert (await hub.call("mcp_calc_one")).text() == "1"
        assert hub.servers["calc"].starts == 1
