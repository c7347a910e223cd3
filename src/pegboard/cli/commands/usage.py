"""`pegboard usage`: show which tools are used most, slow, failing or never used."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from pegboard.cli.catalogue.running_gateway import find_gateway, gateways_with_store, store_meant
from pegboard.cli.entry.error_messages import values_checked
from pegboard.cli.terminal.durations import shown
from pegboard.cli.terminal.output import say, show_table, warn, write_json
from pegboard.cli.terminal.plain_text import counted
from pegboard.config import load_servers
from pegboard.errors import ConfigError, StorageError
from pegboard.model.principal import DEFAULT_TENANT
from pegboard.observe.call_files import all_calls
from pegboard.observe.call_totals import CallTotals
from pegboard.observe.usage_totals import ToolTotal, ToolUsage, usage_report
from pegboard.storage import Store
from pegboard.storage.maintenance import open_existing
from pegboard.storage.open_store import calls_place, without_password

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("usage")(usage)


def usage(
    *,
    days: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of days to look back, including today.")
    ] = 30,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of tools to show in each section.")
    ] = 10,
    tenant: Annotated[
        str, typer.Option(metavar="NAME", help="Tenant that made the calls.")
    ] = DEFAULT_TENANT,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Configuration file (default: see `pegboard config path`)."
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Store with the calls (default: PEGBOARD_STORE, or your own store).",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with all tools.")] = False,
) -> None:
    """Show which tools are used most, are slow, fail, or are never used.

    The report covers all calls of a gateway and of `pegboard call`, as `pegboard calls` shows them,
    and the calls of programs that keep a `History`. Of other calls, the store has only the total
    number.
    """
    url = store_meant(store)
    used: list[ToolUsage] = []
    unused: list[str] = []
    for gateway in gateways_with_store(url):
        gateway.write_calls()
    with values_checked():
        opened = open_existing(url, tenant=tenant)
        if opened is None:
            warn(f"There is no store at {without_password(url)} yet, so no calls are recorded.")
        else:
            with opened:
                used = usage_report(opened, days=days, calls=_calls(url, tenant))
                tried = {it.tool for it in used}
                known = _known(opened, config, url=url, tenant=tenant)
                unused = [it for it in _never_used(opened, known) if it not in tried]
    if json:
        write_json(usage_as_json(days, used, unused))
    elif opened is not None:
        _show(used, unused, days=days, limit=limit)


def usage_as_json(days: int, used: Sequence[ToolUsage], unused: Sequence[str]) -> dict[str, Any]:
    """Return usage as ``--json`` prints it: one object.

    ``days``; ``tools``, the most used first, each with ``tool``, ``calls``, ``failed``,
    ``failures`` (how many, by error code), ``mean_seconds`` and ``slowest_seconds`` (null if not
    measured), ``last_used`` (a time, or null) and ``calls_ever`` (since the store was created);
    ``never_used``, the names of tools that were never called, of those that the running gateway
    has, or else the store knows.
    """
    return {"days": days, "tools": msgspec.to_builtins(used), "never_used": unused}


def _calls(url: str, tenant: str) -> Callable[[date], Mapping[str, ToolTotal]] | None:
    place = calls_place(url)
    if place is None or not place.is_dir():
        return None

    def since(first: date) -> Mapping[str, ToolTotal]:
        try:
            return CallTotals(place).of(tenant, first, partial(all_calls, place))
        except OSError as error:
            words = f"The calls in {place} cannot be read: {error.strerror or error}."
            raise StorageError(words, url=without_password(url)) from error

    return since


def _known(store: Store, config: str | None, *, url: str, tenant: str) -> set[str]:
    """Return the names of all tools: those of the running gateway, or those that are cached."""
    known = {it.tool.name for it in store.load_all()}
    try:
        # Its servers may be others than the environment of this command resolves.
        gateway = find_gateway(config, url) if tenant == DEFAULT_TENANT else None
        if gateway is not None:
            return known | {it.tool.name for it in gateway.tools()}
        from pegboard.upstream.catalog.offline_catalog import read_cached_tools  # noqa: PLC0415 - only where there is a store

        known.update(read_cached_tools(load_servers(config).servers, store).tools)
    except ConfigError as error:
        warn(f"The tools of your servers are left out: {error}")
    return known


def _never_used(store: Store, known: set[str]) -> list[str]:
    ever = {name for name, it in store.usage().items() if it.use_frequency}
    return sorted(known - ever)


def _show(used: Sequence[ToolUsage], unused: Sequence[str], *, days: int, limit: int) -> None:
    if used:
        heading = f"Most used in {counted(days, 'day')}"
        _section(heading, used[:limit], "CALLS", "FAILED", "MEAN", "LAST USED")
        measured = [it for it in used if it.mean_seconds is not None]
        slow = sorted(measured, key=lambda it: -(it.mean_seconds or 0))
        _section("Slowest", slow[:limit], "CALLS", "MEAN", "SLOWEST")
        failing = [it for it in used if it.failed]
        failing.sort(key=lambda it: (-it.failed / it.calls, -it.failed))
        _section("Failing", failing[:limit], "CALLS", "FAILED", "LAST USED", "REASONS")
    else:
        warn(f"No calls were recorded in the last {counted(days, 'day')}.")
    if unused:
        more = (
            f", and {len(unused) - limit:,} more (`--json` has all)" if len(unused) > limit else ""
        )
        say(f"Never used ({len(unused):,}): {', '.join(unused[:limit])}{more}")


def _section(heading: str, tools: Sequence[ToolUsage], *columns: str) -> None:
    if not tools:
        return
    say(heading)
    rows = ([it.tool, *(_CELLS[column](it) for column in columns)] for it in tools)
    show_table(("TOOL", *columns), rows, right=_NUMBERS, whole=["LAST USED"])
    say()


def _reasons(it: ToolUsage) -> str:
    often = sorted(it.failures.items(), key=lambda found: -found[1])
    return ", ".join(f"{reason} {number:,}" for reason, number in often)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:,.0f} ms" if seconds < 10 else f"{seconds:,.1f} s"


_NUMBERS = ("CALLS", "FAILED", "MEAN", "SLOWEST")
_CELLS: dict[str, Callable[[ToolUsage], str]] = {
    "CALLS": lambda it: f"{it.calls:,}",
    "FAILED": lambda it: f"{it.failed / it.calls:.0%}" if it.failed else "",
    "MEAN": lambda it: _time(it.mean_seconds),
    "SLOWEST": lambda it: _time(it.slowest_seconds),
    "LAST USED": lambda it: shown(it.last_used and it.last_used.timestamp(), nothing=""),
    "REASONS": _reasons,
}
