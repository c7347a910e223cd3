"""A diagnosis at the command line: shown while it lasts, and ended at once when it is to end."""

import logging
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

import anyio
import msgspec

from pegboard.cli.exit_codes import INTERRUPTED
from pegboard.cli.live_checkups import watching
from pegboard.cli.output import warn
from pegboard.cli.served_file import file_claimed
from pegboard.config import load_servers
from pegboard.doctor import Limits, Report, diagnose
from pegboard.errors import PegboardError
from pegboard.storage import default_url, open_store
from pegboard.upstream import StoreMemory
from pegboard.upstream.catalog.cache import memory_key
from pegboard.upstream.catalog.failed_starts import FailedStarts
from pegboard.upstream.oauth.provider import open_in_browser

__all__ = ["diagnosed"]

_NOWHERE = logging.NullHandler()
"""Where the log goes: what is in it is said by the report, in better words."""


def diagnosed(
    names: Sequence[str] = (),
    *,
    config: str | None,
    store: str | None,
    timeout: float | None = None,
    login: bool = False,
    gateway: str | None = None,
) -> Report:
    """Return what the doctor found, and show on standard error how far it is.

    The gateway is the address of one that serves the file already.

    Raises:
        ServerNotFoundError: when there is no server of a name.
    """
    logging.getLogger().addHandler(_NOWHERE)

    async def run() -> Report:
        with file_claimed(config), watching() as tell:
            return await diagnose(
                config,
                names=names,
                store=store or default_url(),
                limits=Limits(each=timeout),
                gateway=gateway,
                on_login=_show_login if login else None,
                on_checkup=tell,
            )

    try:
        report = anyio.run(run)
    except KeyboardInterrupt:
        _leave_at_once()
        raise
    _remember(report, store or default_url())
    return report


def _remember(report: Report, url: str) -> None:
    """Keep what servers offered that are well now, so that no command has to start them again."""
    if not report.learned or report.config is None:
        return
    # What is wrong with the store, or with the file, the report has said.
    with suppress(PegboardError, ValueError), open_store(url) as store:
        memory = StoreMemory(lambda: store)
        before = memory.load(report.learned)
        for key, it in report.learned.items():
            names = before[key].names if key in before else it.names
            memory.save(key, msgspec.structs.replace(it, names=names))
        servers = load_servers(report.config).servers
        FailedStarts(store).note([it for it in servers if memory_key(it) in report.learned], {})


def _show_login(server: str, url: str) -> None:
    warn(f"Log in to server {server!r} at this address: {url}")
    # In a thread: some browsers keep whoever opens them waiting.
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
