"""Run the doctor at the command line, with live progress, and stop at once on Ctrl-C."""

import logging
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from pegboard.cli.exit_codes import INTERRUPTED
from pegboard.cli.files.served_file import file_claimed
from pegboard.cli.terminal.output import error_console, warn
from pegboard.cli.terminal.plain_text import counted, one_line
from pegboard.config import load_servers
from pegboard.doctor import Finding, ProbeLimits, Report, diagnose
from pegboard.errors import PegboardError
from pegboard.storage import default_url, open_store
from pegboard.upstream import StoreCatalogCache
from pegboard.upstream.catalog.failed_starts import FailedStarts
from pegboard.upstream.catalog.offline_catalog import catalog_key
from pegboard.upstream.oauth.provider import open_in_browser

if TYPE_CHECKING:
    from rich.table import Table

    from pegboard.doctor import Checkup

__all__ = ["diagnosed", "watching"]

_COLOURS = {"ready": "green", "down": "bold red", "starting": "yellow", "listing": "yellow"}


@contextmanager
def watching() -> Generator[Callable[["Checkup"], None]]:
    """Give a function that shows the progress of each server on standard error."""
    if not sys.stderr.isatty():
        yield _say_when_done
        return
    from rich.live import Live  # noqa: PLC0415 - only where a person looks

    seen: dict[str, Checkup] = {}
    # Gone in the end, when the result says the same and more.
    with Live(console=error_console(), transient=True, refresh_per_second=8) as live:

        def tell(checkup: "Checkup") -> None:
            seen[checkup.server] = checkup
            live.update(_table(seen))

        yield tell


def _say_when_done(checkup: "Checkup") -> None:
    if checkup.state == "ready":
        tools = counted(checkup.tools or 0, "tool")
        warn(f"{checkup.server}: ready, {tools}, {checkup.startup_seconds or 0:.1f} s")
    elif checkup.state == "down":
        warn(f"{checkup.server}: down")


def _table(seen: "dict[str, Checkup]") -> "Table":
    from rich.table import Table  # noqa: PLC0415 - only where a person looks
    from rich.text import Text  # noqa: PLC0415 - only where a person looks

    table = Table(box=None, pad_edge=False, show_header=False)
    for checkup in seen.values():
        said = "" if checkup.tools is None else counted(checkup.tools, "tool")
        state = Text(checkup.state, _COLOURS.get(checkup.state, "dim"))
        table.add_row(Text(one_line(checkup.server)), state, Text(said))
    return table


# What follows `--` is a command of the server's.
_COMMAND = re.compile(
    r"`(pegboard (?:doctor|enable|disable|remove|import|add|config check)\b[^`]*?)((?: -- [^`]*)?)`"
)
_NOWHERE = logging.NullHandler()
"""Swallows the log: the report says the same, in better words."""


def diagnosed(
    names: Sequence[str] = (),
    *,
    config: str | None,
    store: str | None,
    timeout: float | None = None,
    login: bool = False,
    gateway: str | None = None,
) -> Report:
    """Return the report of the doctor, and show its progress on standard error.

    ``gateway`` is the address of a gateway that already serves the file.

    Raises:
        ServerNotFoundError: when there is no server of that name.
    """
    logging.getLogger().addHandler(_NOWHERE)

    async def run() -> Report:
        with file_claimed(config), watching() as tell:
            return await diagnose(
                config,
                names=names,
                store=store or default_url(),
                limits=ProbeLimits(each=timeout),
                gateway=gateway,
                on_login=_show_login if login else None,
                on_checkup=tell,
            )

    try:
        report = anyio.run(run)
    except KeyboardInterrupt:
        _leave_at_once()
        raise
    _cache(report, store or default_url())
    return report if config is None else _with_option(report, f" --config {shlex.quote(config)}")


def _with_option(report: Report, option: str) -> Report:
    """Return the report, in which the commands of the remedies read the same file."""

    def named(finding: Finding) -> Finding:
        return replace(finding, remedy=_COMMAND.sub(rf"`\1{_escaped(option)}\2`", finding.remedy))

    return replace(report, findings=tuple(map(named, report.findings)))


def _escaped(replacement: str) -> str:
    return replacement.replace("\\", r"\\")


def _cache(report: Report, url: str) -> None:
    """Cache the tools of servers that are ok, so that no command has to start them again."""
    if not report.learned or report.config is None:
        return
    # The report has already said what is wrong with the store or the file.
    with suppress(PegboardError, ValueError), open_store(url) as store:
        catalog_cache = StoreCatalogCache(lambda: store)
        before = catalog_cache.load(report.learned)
        for key, it in report.learned.items():
            names = before[key].names if key in before else it.names
            catalog_cache.save(key, replace(it, names=names))
        servers = load_servers(report.config).servers
        FailedStarts(store).note([it for it in servers if catalog_key(it) in report.learned], {})


def _show_login(server: str, url: str) -> None:
    warn(f"Log in to server {server!r} at this address: {url}")
    # In a thread: opening some browsers blocks.
    threading.Thread(target=open_in_browser, args=(url,), daemon=True).start()


def _leave_at_once() -> None:
    """End now, if a thread that waits for the network would hold up the end of the process."""
    others = [it for it in threading.enumerate() if it is not threading.main_thread()]
    if any(not it.daemon for it in others):
        if sys.stderr.isatty():
            sys.stderr.write("\n")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
