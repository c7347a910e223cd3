"""`pegboard doctor`: start every server once, and report problems with their remedies."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.running_gateway import find_gateway
from pegboard.cli.exit_codes import FAILED, NOT_FOUND
from pegboard.cli.files.user_file import warn_of_exposed
from pegboard.cli.terminal.output import result_console, say, show_table, warn, write_json
from pegboard.cli.terminal.plain_text import counted, printable
from pegboard.clients import Machine, exposed_files, files_of_clients
from pegboard.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pegboard.doctor import Finding, Report

__all__ = ["add_to", "report_as_json"]

_COLOURS = {"error": "bold red", "warning": "yellow", "advice": "cyan"}


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("doctor")(doctor)


def doctor(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Servers to check (default: all).")
    ] = None,
    *,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.1, help="Limit for each server, instead of its own `timeouts`."
        ),
    ] = None,
    login: Annotated[
        bool, typer.Option("--login", help="Open the login page of a server that requires one.")
    ] = False,
    config: option.Config = None,
    store: option.StoreUrl = None,
    json: option.Json = False,
) -> None:
    """Start every server once, and report problems with their remedies.

    The tools of servers that start are cached, so that other commands need not start these servers.
    The exit code is 1 after an error or a warning, and 3 if nothing is configured. Advice does not
    change it.
    """
    from pegboard.cli.diagnosis import diagnosed  # noqa: PLC0415 - a second to import

    gateway = _address_of_gateway(config)
    report = diagnosed(
        names or [], config=config, store=store, timeout=timeout, login=login, gateway=gateway
    )
    if gateway is not None and any(it.state in ("ready", "down") for it in report.servers):
        warn(f"A gateway runs at {gateway}; the doctor started its servers a second time.")
    # The user who asks about one server does not ask about the files.
    exposed = [] if names else list(dict.fromkeys(exposed_files(files_of_clients(Machine.here()))))
    if json:
        write_json(report_as_json(report))
    else:
        _show(report, exposed)
    warn_of_exposed(exposed)
    if any(it.code == "no_configuration" for it in report.findings):
        raise typer.Exit(NOT_FOUND)
    if not report.is_ok:
        raise typer.Exit(FAILED)


def report_as_json(report: "Report") -> dict[str, Any]:
    """Return a report as ``--json`` prints it: one object.

    ``ok`` (nothing but advice was found), ``config`` (the file that was read, or null),
    ``servers`` (``server``, ``state`` ready, down, disabled or unusable, ``transport``, ``target``,
    ``era``, ``protocol_version``, ``server_version``, ``tools``, ``tokens`` (estimated) and
    ``startup_seconds``, null if the server did not get that far) and ``findings`` (``code``,
    ``severity`` error, warning or advice, ``what``, ``remedy``, ``server``, ``tool`` and ``place``,
    null if the finding is about none).
    """
    return {
        "ok": report.is_ok,
        "config": report.config,
        "servers": report.servers,
        "findings": report.findings,
    }


def _address_of_gateway(config: str | None) -> str | None:
    # The report says what is wrong with the file.
    with suppress(ConfigError):
        gateway = find_gateway(config, None)
        return None if gateway is None else gateway.address
    return None


def _show(report: "Report", exposed: "Sequence[Path]") -> None:
    if report.servers:
        show_table(
            ("SERVER", "STATE", "ERA", "TOOLS", "TOKENS", "START"),
            [
                (
                    it.server,
                    it.state,
                    it.era or "-",
                    "-" if it.tools is None else f"{it.tools:,}",
                    "-" if it.tokens is None else f"{it.tokens:,}",
                    "-" if it.startup_seconds is None else f"{it.startup_seconds:.1f} s",
                )
                for it in report.servers
            ],
            right=("TOOLS", "TOKENS", "START"),
        )
    rank = list(_COLOURS)
    # The worst comes last: there the user looks when the command has ended.
    for finding in sorted(report.findings, key=lambda it: -rank.index(it.severity)):
        say()
        _show_finding(finding)
    say()
    say(_summary(report, exposed))


def _show_finding(finding: "Finding") -> None:
    where = [it for it in (finding.server, finding.tool, finding.place) if it]
    title = f"{finding.severity} [{finding.code}] {' / '.join(where)}".rstrip()
    if sys.stdout.isatty():
        from rich.padding import Padding  # noqa: PLC0415 - only where a person looks
        from rich.text import Text  # noqa: PLC0415 - only where a person looks

        console = result_console()
        rest = printable(title.removeprefix(finding.severity))
        console.print(Text.assemble((finding.severity, _COLOURS[finding.severity]), rest))
        for line in (finding.what, f"Remedy: {finding.remedy}"):
            console.print(Padding(Text(printable(line)), (0, 0, 0, 2)))
    else:
        say(title)
        say(f"  {finding.what}")
        say(f"  Remedy: {finding.remedy}")


def _summary(report: "Report", exposed: "Sequence[Path]") -> str:
    kinds = [it.severity for it in report.findings]
    # Below the summary, there is a warning for each file that others can read.
    errors, warnings = kinds.count("error"), kinds.count("warning") + len(exposed)
    number = sum(it.state != "disabled" for it in report.servers)
    looked = f"{counted(number, 'server')} checked" if number else "No server was checked"
    besides = f" Other users can read {counted(len(exposed), 'file')} of your clients."
    if report.is_ok:
        told = f"All ok: {looked}." if number else f"{looked}; no problem was found."
    else:
        told = f"{looked}: {counted(errors, 'error')}, {counted(warnings, 'warning')}."
    return told + besides * bool(exposed)
