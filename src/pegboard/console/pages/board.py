"""Board: all servers with their state, tools, tokens, calls and latency."""

from collections.abc import Iterable
from datetime import datetime

import anyio.to_thread
import msgspec
from starlette.responses import Response

from pegboard.console.request import PageRequest
from pegboard.doctor.status import KnownStatus
from pegboard.model.principal import DEFAULT_TENANT
from pegboard.observe.call_entry import CallEntry, CallFilter
from pegboard.reports.latency import Latency
from pegboard.reports.live_status import CallNumbers, LiveCosts, live_status

__all__ = ["ServerRow", "costs_of", "seen_calls", "server_rows", "show"]

_RECENT = 1000
"""How many calls are looked through for the last one of each server."""
_NO_CALLS = Latency(calls=0, mean=None, p50=None, p95=None)


class ServerRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the board shows of a server."""

    status: KnownStatus
    latency: Latency
    last_call: datetime | None
    """``None`` if it is not known."""

    @property
    def is_wrong(self) -> bool:
        """Whether a person has to do something."""
        return self.status.state in ("down", "tripped", "unusable")


async def show(page: PageRequest) -> Response:
    """Show the board."""
    page.need("read")
    rows = await anyio.to_thread.run_sync(server_rows, page)
    totals = _totals(rows)
    registered = await anyio.to_thread.run_sync(_registered, page)
    return await page.show("board.html", rows=rows, totals=totals, registered=registered)


def _registered(page: PageRequest) -> int:
    return sum(it.server is None for it in page.tenant.tools.seen(page.visibility))


def server_rows(page: PageRequest) -> list[ServerRow]:
    """Return the servers that a person may see; why one is down is for operators."""
    sources, hub = page.sources, page.tenant.hub
    # The numbers of a server count the calls of all tenants with a server of this name.
    is_first = page.principal.tenant == DEFAULT_TENANT
    numbers: CallNumbers = sources.numbers() if page.operates and is_first else {}
    latencies = sources.latencies() if page.operates and is_first else {}
    last = _last_calls(page)
    found: list[ServerRow] = []
    for status in live_status(hub, costs_of(page), numbers):
        if not page.visibility.knows_server(status.server):
            continue
        if not page.operates:
            status = msgspec.structs.replace(  # noqa: PLW2901 - the same, with less
                status, target="", last_error=None, calls=None, failed_calls=None
            )
        found.append(
            ServerRow(
                status=status,
                latency=latencies.get(status.server, _NO_CALLS),
                last_call=last.get(status.server),
            )
        )
    return sorted(found, key=lambda it: (not it.is_wrong, it.status.server))


def costs_of(page: PageRequest) -> LiveCosts:
    """Return the costs of the tenant of a person, which are counted once for all pages."""
    known: dict[str, tuple[object, LiveCosts]] = page.request.app.state.costs
    hub = page.tenant.hub
    found = known.get(page.principal.tenant)
    if found is None or found[0] is not hub:
        found = known[page.principal.tenant] = hub, LiveCosts(hub)
    return found[1]


def _last_calls(page: PageRequest) -> dict[str, datetime]:
    found: dict[str, datetime] = {}
    for it in seen_calls(page, CallFilter(limit=_RECENT)):
        if it.server is not None:
            found.setdefault(it.server, it.started)
    return found


def seen_calls(page: PageRequest, wanted: CallFilter) -> list[CallEntry]:
    """Return the calls that a person may see, the newest first: its own, or all for operators.

    Raises:
        OSError: when they cannot be read.
    """
    calls, principal = page.sources.calls, page.principal
    if calls is None:
        return []
    if page.operates:
        return calls.find(wanted)
    own = msgspec.structs.replace(wanted, tenant=principal.tenant, caller=principal.subject)
    # The filter takes the beginning of a caller, and another caller may begin in the same way.
    return [it for it in calls.find(own) if it.caller == principal.subject]


def _totals(rows: Iterable[ServerRow]) -> dict[str, int | None]:
    shown = [it.status for it in rows]

    def total(values: list[int | None]) -> int | None:
        # A sum with an unknown part is unknown, too.
        known = [it for it in values if it is not None]
        return sum(known) if len(known) == len(values) else None

    usable = [it for it in shown if it.state != "unusable"]
    return {
        "servers": len(shown),
        "ready": sum(it.state == "ready" for it in shown),
        "wrong": sum(it.state in ("down", "tripped", "unusable") for it in shown),
        # Those on the board: what a server has that never started is not there.
        "tools": sum(it.tools or 0 for it in usable),
        "tokens": sum(it.tokens or 0 for it in usable),
        "calls": total([it.calls for it in usable]),
        "failed": total([it.failed_calls for it in usable]),
    }
