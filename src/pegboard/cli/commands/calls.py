"""`pegboard calls`: show the calls of a gateway, past and as they end, or one of them in full."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any

import msgspec
import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.running_gateway import find_gateway, store_meant
from pegboard.cli.entry.error_messages import values_checked
from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.terminal.durations import shown
from pegboard.cli.terminal.durations import since as since_when
from pegboard.cli.terminal.output import (
    complain,
    say,
    show_table,
    warn,
    write_json,
    write_json_line,
)
from pegboard.cli.terminal.plain_text import counted
from pegboard.errors import StorageError
from pegboard.model.call import Phases
from pegboard.observe.call_entry import CallEntry, CallFilter, entry_as_json
from pegboard.observe.call_files import find_calls
from pegboard.storage.open_store import calls_place, without_password

__all__ = ["add_to", "call_as_json"]

PAUSE = 0.5
"""Seconds between two looks for new calls."""
LATE = 5_000_000
"""Microseconds by which a process may be late to write a call."""
MOST_AT_ONCE = 1000
_NOTICED = 0.1
"""Seconds from which on a refused call has waited for something."""
Find = Callable[[CallFilter], list[CallEntry]]
_ID = re.compile(r"[0-9a-f]{14}[0-9a-f]*")


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("calls")(calls)


def calls(
    call_id: Annotated[
        str, typer.Argument(metavar="[ID]", help="Show this call in full.", show_default=False)
    ] = "",
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on, and show each call when it ends.")
    ] = False,
    tool: Annotated[
        str, typer.Option(metavar="NAME", help="Only this tool; `*` stands for any characters.")
    ] = "",
    server: Annotated[
        str, typer.Option(metavar="NAME", help="Only tools of this server; `*` likewise.")
    ] = "",
    key: Annotated[
        str, typer.Option(metavar="KEY", help="Only calls with this key, or of this subject.")
    ] = "",
    client: Annotated[
        str, typer.Option(metavar="NAME", help="Only clients with this in their name.")
    ] = "",
    tenant: Annotated[str, typer.Option(metavar="NAME", help="Only this tenant.")] = "",
    failed: Annotated[
        bool, typer.Option("--failed", help="Only calls that did not end `ok`.")
    ] = False,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only calls since then: 15m, 12h, 2d, or a date.")
    ] = "",
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Number of calls to show.")] = 20,
    config: option.Config = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Store beside which the calls are (default: PEGBOARD_STORE, or your own store).",
        ),
    ] = None,
    alone: option.Alone = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON; with `--follow`, one line for each call.")
    ] = False,
) -> None:
    """Show the calls of a gateway and of `pegboard call`, the newest last.

    Calls are kept for 7 days, or until they take 200 MB; the settings `calls_days` and
    `calls_bytes` change that.
    """
    wanted = CallFilter(
        id=call_id,
        tool=tool,
        server=server,
        caller=key,
        client=client,
        tenant=tenant or None,
        failed=failed,
        since=since_when(since, option="--since") if since else None,
        limit=limit,
    )
    find = _source(config, store, alone=alone)
    found = find(wanted)
    if call_id:
        _show_one(found, call_id, json=json)
        return
    _tell_older(find, wanted, found)
    if not follow:
        is_all = wanted == CallFilter(limit=limit)
        _show(found, json=json, nothing="No calls" if is_all else "No such calls")
    else:
        with suppress(KeyboardInterrupt):
            show_each = _print_line if json else _say_line
            for call in _following(find, wanted, found):
                show_each(call)


def call_as_json(call: CallEntry) -> dict[str, Any]:
    """Return a call as ``--json`` prints it: an array of objects, the newest last.

    ``id``; ``started``; ``seconds`` (until the client had its result); ``tool``; ``outcome`` (ok,
    tool_error, raised, refused, timeout or cancelled); ``tenant``; ``caller`` (the id of a key, or
    a subject); ``client``; ``session`` (a digest; empty where the protocol has none); ``server``
    (null if the tool has none); ``error_code`` (null if there was no error); ``attempts`` (how
    often the tool was started); ``count`` (more than 1 only in a flood of refusals);
    ``arguments_size`` and ``result_size`` (bytes, or null); ``phases`` (the seconds ``queued``,
    ``connecting``, ``at_server``, ``waiting`` for a person, and ``caching``); ``arguments`` and
    ``result``, only if the gateway records them. With an ID, one such object.
    """
    return entry_as_json(call)


def _source(config: str | None, store: str | None, *, alone: bool) -> Find:
    """Return what finds calls: the running gateway, or the files beside the store."""
    gateway = None if alone else find_gateway(config, store)
    if gateway is not None:
        running = gateway

        def ask(wanted: CallFilter) -> list[CallEntry]:
            found = running.calls(wanted)
            if found is None:
                warn(f"The gateway at {running.address} has no store, so it keeps no calls.")
            return found or []

        return ask
    url = store_meant(store)
    with values_checked():
        place = calls_place(url)

    def read(wanted: CallFilter) -> list[CallEntry]:
        try:
            return [] if place is None else find_calls(place, wanted)
        except OSError as error:
            words = f"The calls in {place} cannot be read: {error.strerror or error}."
            raise StorageError(words, url=without_password(url)) from error

    return read


def _following(find: Find, wanted: CallFilter, first: Sequence[CallEntry]) -> Iterator[CallEntry]:
    """Yield the calls that are there, and each that ends from now on."""
    yield from reversed(first)
    seen = {it.id for it in first}
    newest = max(seen, default=f"{int(time.time() * 1_000_000):014x}")
    oldest = min(seen, default=newest)
    while True:
        time.sleep(PAUSE)
        # Processes write their calls some seconds late, and not in each other's order.
        after = max(oldest, f"{max(0, int(newest[:14], 16) - LATE):014x}")
        new = [it for it in _all_after(find, wanted, after) if it.id not in seen]
        seen = {it for it in seen if it > after}
        for call in reversed(new):
            seen.add(call.id)
            newest = max(newest, call.id)
            yield call


def _all_after(find: Find, wanted: CallFilter, after: str) -> list[CallEntry]:
    """Return all calls that ended after one, however many they are, the newest first."""
    found: list[CallEntry] = []
    page = msgspec.structs.replace(wanted, after=after, limit=MOST_AT_ONCE)
    while True:
        some = find(page)
        found += some
        if len(some) < MOST_AT_ONCE:
            return found
        page = msgspec.structs.replace(page, before=some[-1].id)


def _tell_older(find: Find, wanted: CallFilter, found: Sequence[CallEntry]) -> None:
    """Say how many older calls the limit leaves out; reading all of them could take long."""
    if len(found) < wanted.limit:
        return
    page = msgspec.structs.replace(wanted, before=found[-1].id, limit=MOST_AT_ONCE)
    if hidden := len(find(page)):
        least = "at least " if hidden == MOST_AT_ONCE else ""
        more = counted(hidden, "older call")
        warn(f"({least}{more} not shown; `--limit {wanted.limit + hidden}` shows more)")


def _show(found: Sequence[CallEntry], *, json: bool, nothing: str) -> None:
    if json:
        write_json([call_as_json(it) for it in reversed(found)])
        return
    if not found:
        warn(f"{nothing} are kept.")
        return
    columns = ("ID", "ENDED", "OUTCOME", "TOOL", "TIME", "MOST OF IT", "CALLER", "CLIENT")
    rows = [
        [
            it.id,
            shown(it.started.timestamp() + it.seconds, nothing=""),
            _outcome(it) if it.count == 1 else f"{_outcome(it)} ({it.count:,} times)",
            it.tool,
            _time(it.seconds),
            _longest(it),
            _caller(it),
            it.client,
        ]
        for it in reversed(found)
    ]
    show_table(columns, rows, right=("TIME",), whole=("ENDED", "OUTCOME"))


def _show_one(found: Sequence[CallEntry], call_id: str, *, json: bool) -> None:
    if not found:
        said = (
            "" if _ID.fullmatch(call_id) else " An ID is in the first column of `pegboard calls`."
        )
        complain(f"No call {call_id!r} is kept.{said}")
        raise typer.Exit(NOT_FOUND)
    call = found[0]
    whole = call_as_json(call)
    if json:
        write_json(whole)
        return
    phases: dict[str, float] = whole.pop("phases")
    kept = {name: whole.pop(name) for name in ("arguments", "result") if name in whole}
    whole["started"] = call.started.isoformat()
    for name, value in whole.items():
        if value not in ("", None):
            say(f"{name + ':':<16}{value}")
    other = call.seconds - sum(phases.values())
    for name, seconds in {**phases, "the rest": max(other, 0.0)}.items():
        part = round(40 * seconds / call.seconds) if call.seconds else 0
        say(f"  {name:<14}{_time(seconds):>10}  {'#' * min(part, 40)}".rstrip())
    for name, value in kept.items():
        say(f"{name}:")
        say(msgspec.json.format(bytes(value)).decode())


def _say_line(call: CallEntry) -> None:
    ended = call.started + timedelta(seconds=call.seconds)
    words = [
        ended.isoformat(timespec="milliseconds"),
        call.id,
        _outcome(call),
        call.tool,
        _time(call.seconds),
        _longest(call),
        _caller(call),
        call.client,
    ]
    say("  ".join(it for it in words if it))


def _print_line(call: CallEntry) -> None:
    write_json_line(call_as_json(call))


def _caller(call: CallEntry) -> str:
    return call.caller if call.tenant == "default" else f"{call.tenant}/{call.caller}"


def _outcome(call: CallEntry) -> str:
    """Return how a call ended, with the code of the error where that says more."""
    says_more = call.failed and call.error_code not in (None, call.outcome)
    return f"{call.outcome} {call.error_code}" if says_more else call.outcome


def _longest(call: CallEntry) -> str:
    """Return the phase that took most of the time, if one did and the time can be noticed."""
    spent = call.phases or Phases()
    if call.outcome == "refused" and call.seconds < _NOTICED:
        # The gateway looked for the tool, and no server was waited for.
        return ""
    longest = max(Phases.__struct_fields__, key=lambda it: getattr(spent, it))
    return longest.replace("_", " ") if getattr(spent, longest) > call.seconds / 2 else ""


def _time(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"
