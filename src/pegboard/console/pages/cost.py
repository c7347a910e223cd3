"""Cost: the tokens of each server, tool and address, and the tools that are never used."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec
from starlette.responses import Response

from pegboard.console.client import asked
from pegboard.console.pages.board import costs_of, seen_calls
from pegboard.console.request import PageRequest
from pegboard.observe.call_entry import CallFilter
from pegboard.reports.cost import ToolCost, by_server, estimated, largest_first, surface_costs

if TYPE_CHECKING:
    from pegboard.model.principal import Scope

__all__ = ["show"]

_LARGEST = 50
_DAYS = 7
_MOST_CALLS = 20_000


class ClientUse(msgspec.Struct, kw_only=True):
    """What a client called of late; results cost its model about a token for four bytes."""

    client: str
    calls: int = 0
    failed: int = 0
    result_bytes: int = 0


async def show(page: PageRequest) -> Response:
    """Show what the tools that a person may see cost a model."""
    page.need("read")
    tools = await anyio.to_thread.run_sync(partial(_seen_costs, page))
    # With the pinned tools, as clients over HTTP list them: only the owner's stdio registers tools.
    withheld: frozenset[Scope] = frozenset({"register"} if page.session.is_owner else ())
    listed = (await asked(page, "tools/list", {}, surface="search", withheld=withheld))["tools"]
    lists = [("/mcp-search", "tools to find and call others", listed)]
    surfaces = await anyio.to_thread.run_sync(
        lambda: list(surface_costs(tools, lists, pinned=(), cost_of=estimated))
    )
    usage = await anyio.to_thread.run_sync(page.tenant.hub.registry.usage)
    used = {name for name, it in usage.items() if it.use_frequency}
    unused = [it for it in tools if it.name not in used] if page.operates else []
    servers = [
        (name, len(own), sum(it.tokens for it in own)) for name, own in by_server(tools).items()
    ]
    return await page.show(
        "cost.html",
        servers=servers,
        largest=largest_first(tools)[:_LARGEST],
        surfaces=surfaces[:2],
        total=len(tools),
        unused=largest_first(unused),
        clients=await anyio.to_thread.run_sync(partial(_clients, page)),
        days=_DAYS,
    )


def _clients(page: PageRequest) -> list[ClientUse]:
    """Return how many calls each client made of late, and how many bytes of results it got."""
    since = datetime.now(UTC) - timedelta(days=_DAYS)
    found: dict[str, ClientUse] = {}
    for call in seen_calls(page, CallFilter(limit=_MOST_CALLS, since=since)):
        use = found.setdefault(call.client, ClientUse(client=call.client))
        use.calls += call.count
        use.failed += call.count if call.failed else 0
        use.result_bytes += call.result_size or 0
    return sorted(found.values(), key=lambda it: -it.result_bytes)


def _seen_costs(page: PageRequest) -> list[ToolCost]:
    seen = {it.name for it in page.tenant.tools.seen(page.visibility)}
    return [it for it in costs_of(page).read() if it.name in seen]
