"""`pegboard status`: show the state of each server, and the limits of the running gateway."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.running_gateway import RunningGateway, find_gateway
from pegboard.cli.entry.error_messages import values_checked
from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.terminal.output import say, show_table, warn, write_json
from pegboard.cli.terminal.plain_text import placed
from pegboard.cli.terminal.spinner import waiting
from pegboard.config import LoadedConfig, load_servers
from pegboard.doctor.status import KnownStatus, cached_status, unusable_status
from pegboard.errors import ConfigError
from pegboard.errors.servers import without_name
from pegboard.policies.fair_share import LimitUse
from pegboard.storage import default_url, open_store
from pegboard.storage.open_store import path_of, scheme_of

if TYPE_CHECKING:
    from pegboard.doctor import Report

__all__ = ["add_to", "status_as_json"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("status")(status)


def status(
    *,
    start: Annotated[
        bool, typer.Option("--start", help="Start the servers to check them, if no gateway runs.")
    ] = False,
    config: option.Config = None,
    store: option.StoreUrl = None,
    alone: option.Alone = False,
    json: option.Json = False,
) -> None:
    """Show the state of each server, and what is used up of the limits of the running gateway."""
    gateway = None if alone else find_gateway(config, store)
    limits: list[LimitUse] = []
    if gateway is not None:
        with waiting("Asking the gateway"):
            found = _in_gateway(gateway, config)
            limits = msgspec.convert(gateway.limits(), list[LimitUse])
        source = f"from the gateway at {gateway.address}"
    elif start:
        found, source = _started(config, store), "the servers were started and stopped again"
    else:
        found, source = _remembered(config, store), "from the cache; `--start` starts the servers"
    if json:
        write_json(status_as_json(found, limits))
    if not found:
        warn("No server is configured; `pegboard import` or `pegboard add` adds some.")
        raise typer.Exit(NOT_FOUND)
    if json:
        return
    _show(found)
    _show_limits(limits)
    warn(f"({source})")


def status_as_json(found: Sequence[KnownStatus], limits: Sequence[LimitUse]) -> dict[str, Any]:
    """Return what ``--json`` prints: an object with ``servers`` and ``limits``.

    Each of ``servers`` has ``server``; ``state`` (in a gateway: cold, starting, ready, down,
    tripped, closed or disabled; without one: cold, disabled, or
    down if it could not be started lately; with ``--start``:
    ``ready``, ``down`` or ``disabled``; always ``unusable`` if the entry is, and ``last_error``
    says why); ``transport`` and ``target`` (empty if the entry cannot be read); ``era`` (legacy or
    modern); ``protocol_version``; ``server_version``; ``tools`` and ``tokens`` (estimated; null if
    the server was never asked for its tools); ``startup_seconds``; ``starts``; ``calls`` and
    ``failed_calls`` (since the gateway was started; null without one); ``last_error``.
    Each of ``limits`` (none without a gateway) has ``name``; ``used``; ``limit``; ``setting``
    (empty if none changes it); ``largest`` (the tenant and the key that hold
    the most, or null); ``largest_used``.
    """
    return {"servers": msgspec.to_builtins(found), "limits": msgspec.to_builtins(limits)}


def _in_gateway(gateway: RunningGateway, config: str | None) -> list[KnownStatus]:
    found = msgspec.convert(gateway.status(), list[KnownStatus])
    known = {it.server for it in found}
    return [*found, *(it for it in _left_out(config) if it.server not in known)]


def _left_out(config: str | None) -> list[KnownStatus]:
    """Return how all entries of the file are, if a gateway that reads it does not have them."""
    try:
        loaded = load_servers(config)
    except ConfigError as error:
        # The gateway works on with what it has read.
        warn(str(error))
        return []
    return [
        *unusable_status(loaded),
        *(
            KnownStatus(
                server=it.name,
                state="unusable",
                transport=it.transport,
                target=it.target,
                # Here it can be used: there, a variable may be missing.
                last_error="The gateway did not accept this entry; its log says why.",
            )
            for it in loaded.servers
        ),
    ]


def _remembered(config: str | None, store: str | None) -> list[KnownStatus]:
    loaded = load_servers(config)
    unusable = unusable_status(loaded)
    told = {(it.server, it.last_error) for it in unusable}
    for problem in loaded.problems:
        if (problem.server, problem.message) not in told:
            warn(placed(problem, loaded.path))
    return [*_remembered_of(loaded, store), *unusable]


def _remembered_of(loaded: LoadedConfig, store: str | None) -> list[KnownStatus]:
    url = store or default_url()
    with values_checked():
        if scheme_of(url) in ("json", "sqlite") and not path_of(url).exists():
            return cached_status(loaded.servers, None)
        opening = open_store(url)
    with opening as opened:
        return cached_status(loaded.servers, opened)


def _started(config: str | None, store: str | None) -> list[KnownStatus]:
    from pegboard.cli.diagnosis import diagnosed  # noqa: PLC0415 - a second to import

    return _of_report(diagnosed(config=config, store=store))


def _of_report(report: "Report") -> list[KnownStatus]:
    errors = {it.server: it.what for it in reversed(report.findings) if it.severity == "error"}
    return [
        KnownStatus(
            server=it.server,
            state=it.state,
            transport=it.transport,
            target=it.target,
            era=it.era,
            protocol_version=it.protocol_version,
            server_version=it.server_version,
            tools=it.tools,
            tokens=it.tokens,
            startup_seconds=it.startup_seconds,
            starts=None if it.startup_seconds is None else 1,
            last_error=errors.get(it.server),
        )
        for it in report.servers
    ]


def _show_limits(limits: Sequence[LimitUse]) -> None:
    if not limits:
        return
    rows = [
        [
            it.name,
            f"{it.used:,}",
            f"{it.limit:,}",
            "-" if it.largest is None else f"{'/'.join(it.largest)} ({it.largest_used:,})",
            it.setting or "-",
        ]
        for it in limits
    ]
    say("")
    columns = ["LIMIT", "USED", "OF", "LARGEST HOLDER", "SETTING"]
    show_table(columns, rows, right=("USED", "OF"))


def _show(found: Sequence[KnownStatus]) -> None:
    columns = ["SERVER", "STATE", "ERA", "TOOLS", "TOKENS", "START", "LAST ERROR"]
    rows = [
        [
            it.server,
            it.state,
            it.era or "-",
            "-" if it.tools is None else f"{it.tools:,}",
            "-" if it.tokens is None else f"{it.tokens:,}",
            "-" if it.startup_seconds is None else f"{it.startup_seconds:.1f} s",
            without_name(it.server, it.last_error) if it.last_error else "-",
        ]
        for it in found
    ]
    # The last column of a terminal has hardly room for a word of a sentence.
    is_seen = sys.stdout.isatty()
    if is_seen:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    show_table(columns, rows, right=("TOOLS", "TOKENS", "START"), whole=("STATE", "ERA"))
    for it in found:
        if is_seen and it.last_error:
            say(f"{it.server}: {without_name(it.server, it.last_error)}")
