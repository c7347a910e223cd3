"""A diagnosis at the command line: shown while it lasts, and ended at once when it is to end."""

import logging
import os
import sys
import threading
from collections.abc import Sequence

import anyio

from pegboard.cli.exit_codes import INTERRUPTED
from pegboard.cli.live_checkups import watching
from pegboard.cli.output import warn
from pegboard.doctor import Limits, Report, diagnose
from pegboard.storage import default_url
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
) -> Report:
    """Return what the doctor found, and show on standard error how far it is.

    Raises:
        ServerNotFoundError: when there is no server of a name.
    """
    logging.getLogger().addHandler(_NOWHERE)

    async def run() -> Report:
        with watching() as tell:
            return await diagnose(
                config,
                names=names,
                store=store or default_url(),
                limits=Limits(each=timeout),
                on_login=_show_login if login else None,
                on_checkup=tell,
            )

    try:
        return anyio.run(run)
    except KeyboardInterrupt:
        _leave_at_once()
        raise


def _show_login(server: str, url: str) -> None:
    warn(f"Log in to server {server!r} at this address: {url}")
    # In a thread: some browsers keep whoever opens them waiting.
    threading.Thread(target=open_in_browser, args=(url,), daemon=True).start()


def _leave_at_once() -> None:
    """End now, if a thread that waits for the network would hold up the end of the process."""
    others = [it for it in threading.enumerate() if it is not threading.main_thread()]
    if any(not it.daemon for it in others):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
