"""When the tools of a server are listed anew."""

from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from tests.upstream.board_servers import Bench, hub_of, memory, until


async def test_a_changed_list_that_cannot_be_read_at_once_is_read_when_it_can() -> None:
    bench, bus = Bench(old=lambda _: "old"), InMemorySubscriptionBus()
    server: Any = bench.server
    listing = server._request_handlers["tools/list"].handler
    failures: list[Exception] = []
    may_answer, asked = anyio.Event(), anyio.Event()

    async def fail_first(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        if bench.lists:
            asked.set()
            await may_answer.wait()
        return await listing(*args)

    server.add_request_handler("tools/list", types.PaginatedRequestParams, fail_first)
    heard = ListenHandler(bus)
    server.add_request_handler(
        "subscriptions/listen", types.SubscriptionsListenRequestParams, heard
    )
    async with hub_of(memory("calc", bench)) as hub:
        await until(lambda: heard._streams, "a listener")  # pyright: ignore[reportPrivateUsage]
        bench.tools["new"] = lambda _: "new"
        failures.append(MCPError(-32000, "database is locked"))
        with anyio.fail_after(5):
            # Once: there is no second notice.
            await bus.publish(ToolsListChanged())
            await asked.wait()
            assert "mcp_calc_new" not in hub.registry
            assert "database is locked" in str(hub.servers["calc"].last_error)
            may_answer.set()
            await until(lambda: "mcp_calc_new" in hub.registry, "the second list")
        assert hub.servers["calc"].last_error is None
