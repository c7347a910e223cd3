"""`pegboard usage`: show which tools are used most, slow, failing or never used."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
import typer

from pegboard.cli.catalogue.running_gateway import store_meant
from pegboard.cli.entry.error_messages import values_checked
from pegboard.cli.terminal.durations import shown
from pegboard.cli.terminal.output import say, show_table, warn, write_json
from pegboard.cli.terminal.plain_text import counted
from pegboard.config import load_servers
from pegboard.errors import ConfigError
from pegboard.model.principal import DEFAULT_TENANT, OPERATOR
from pegboard.observe import Audit, AuditRecord
from pegboard.observe.usage_totals import ToolUsage, usage_report
from pegboard.storage import Store
from pegboard.storage.maintenance import open_existing
from pegboard.storage.open_store import without_password

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

    The report covers the last 10,000 calls of a gateway, the calls of `pegboard call`, and the
    calls of programs that keep a `History`. Of other calls, the store has only the total number.
    """
    url = store_meant(store)
    used: list[ToolUsage] = []
    unused: list[str] = []
    with values_checked():
        opened = open_existing(url, tenant=tenant)
        if opened is None:
            warn(f"There is no store at {without_password(url)} yet, so no calls are recorded.")
        else:
            with opened:
                used = usage_report(opened, days=days, audit=_audit(url))
                tried = {it.tool for it in used}
                unused = [it for it in _never_used(opened, config) if it not in tried]
    if json:
        write_json(usage_as_json(days, used, unused))
    elif opened is not None:
        _show(used, unused, days=days, limit=limit)


def usage_as_json(days: int, used: Sequence[ToolUsage], unused: Sequence[str]) -> dict[str, Any]:
    """Return usage as ``--json`` prints it: one object.

    ``days``; ``tools``, the most used first, each with ``tool``, ``calls``, ``failed``,
    ``failures`` (how many, by error code), ``mean_seconds`` and ``slowest_seconds`` (null if not
    measured), ``last_used`` (a date, or null) and ``calls_ever`` (since the store was created);
    ``never_used``, the names of tools that the store knows and that were never called.
    """
    return {"days": days, "tools": msgspec.to_builtins(used), "never_used": unused}


def _audit(url: str) -> list[AuditRecord]:
    operators = open_existing(url, tenant=OPERATOR)
    if operators is None:
        return []
    with operators as store:
        audit = Audit(store)
        try:
            return audit.records(limit=1_000_000)
        finally:
            audit.close()


def _never_used(store: Store, config: str | None) -> list[str]:
    from pegboard.upstream.catalog.offline_catalog import read_cached_tools  # noqa: PLC0415 - only where there is a store

    known = {it.tool.name for it in store.load_all()}
    try:
        known.update(read_cached_tools(load_servers(config).servers, store).tools)
    except ConfigError as error:
        warn(f"The tools of your servers are left out: {error}")
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
