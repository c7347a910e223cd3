"""Calls: those that were kept, filtered, one of them in full, and their export."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio.to_thread
import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from pegboard.console.pages.board import seen_calls
from pegboard.console.request import PageRequest
from pegboard.model.call import Phases
from pegboard.observe.call_entry import CallEntry, CallFilter, entry_as_json

__all__ = ["PHASES", "export", "show", "show_one"]

_PAGE = 100
_EXPORTED = 10_000
_LONGEST = 200
_OUTCOMES = ("ok", "tool_error", "raised", "refused", "timeout", "cancelled")
PHASES = ("queued", "connecting", "at_server", "waiting", "caching")
_SPANS: Mapping[str, timedelta] = {
    "1h": timedelta(hours=1),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
}


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of a call in its waterfall, in per mille of the longest call shown."""

    phase: str
    start: float
    width: float
    seconds: float


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A call with its waterfall."""

    call: CallEntry
    bars: tuple[Bar, ...]


async def show(page: PageRequest) -> Response:
    """Show the calls that a person may see."""
    page.need("read")
    chosen = _chosen(page)
    calls = await anyio.to_thread.run_sync(partial(_found, page, _PAGE + 1))
    longest = max((it.seconds for it in calls[:_PAGE]), default=0.0)
    return await page.show(
        "calls.html",
        rows=[CallRow(call=it, bars=_bars(it, longest)) for it in calls[:_PAGE]],
        chosen=chosen,
        outcomes=_OUTCOMES,
        spans=tuple(_SPANS),
        phases=PHASES,
        older=calls[_PAGE - 1].id if len(calls) > _PAGE else "",
        is_kept=page.sources.calls is not None,
    )


async def show_one(page: PageRequest) -> Response:
    """Show one call in full."""
    page.need("read")
    wanted = CallFilter(id=page.request.path_params["id"][:_LONGEST], limit=1)
    found = await anyio.to_thread.run_sync(partial(seen_calls, page, wanted))
    if not found:
        raise HTTPException(404, "There is no call with this id, or it is not kept any more.")
    call = found[0]
    kept = {
        name: msgspec.json.format(bytes(raw), indent=2).decode()
        for name, raw in (("arguments", call.arguments), ("result", call.result))
        if bytes(raw)
    }
    return await page.show("call.html", call=call, bars=_bars(call, call.seconds), kept=kept)


async def export(page: PageRequest) -> Response:
    """Return the calls of a filter as JSON, as `pegboard calls --json` prints them."""
    page.need("read")
    calls = await anyio.to_thread.run_sync(partial(_found, page, _EXPORTED))
    body = await anyio.to_thread.run_sync(
        lambda: msgspec.json.encode([entry_as_json(it) for it in calls])
    )
    headers = {"content-disposition": 'attachment; filename="calls.json"'}
    return Response(body, media_type="application/json", headers=headers)


def _chosen(page: PageRequest) -> dict[str, str]:
    names = ("tool", "server", "caller", "client", "outcome", "since", "before")
    return {name: page.asked(name)[:_LONGEST] for name in names}


def _found(page: PageRequest, limit: int) -> list[CallEntry]:
    chosen: dict[str, Any] = _chosen(page)
    span = _SPANS.get(chosen.pop("since"))
    if chosen["outcome"] not in _OUTCOMES:
        chosen["failed"] = chosen.pop("outcome") == "failed"
    if span is not None:
        chosen["since"] = datetime.now(UTC) - span
    for name in ("tool", "server"):
        # Without a wildcard, a part of the name is enough.
        if chosen[name] and "*" not in chosen[name]:
            chosen[name] = f"*{chosen[name]}*"
    return seen_calls(page, CallFilter(limit=limit, **chosen))


def _bars(call: CallEntry, longest: float) -> tuple[Bar, ...]:
    """Return the phases one after the other; what is left of the call is the gateway's work."""
    spent = call.phases or Phases()
    if not longest:
        return ()
    bars: list[Bar] = []
    begin = 0.0
    known = [(name, float(getattr(spent, name))) for name in PHASES]
    rest = max(0.0, call.seconds - sum(seconds for _, seconds in known))
    for phase, seconds in (*known, ("gateway", rest)):
        if seconds <= 0:
            continue
        width = 1000 * seconds / longest
        bars.append(Bar(phase=phase, start=begin, width=width, seconds=seconds))
        begin += width
    return tuple(bars)
