"""Announcing: a process that serves lets the commands of its owner find it, as long as it can."""

import ipaddress
import logging
import os
from pathlib import Path

import anyio
import anyio.to_thread

from pegboard.auth.settings import is_loopback
from pegboard.hub import Hub
from pegboard.server.announcement import (
    Announcement,
    identity_of,
    place_of_store,
    publish,
    withdraw,
)
from pegboard.server.owner import Owner
from pegboard.server.serving import ServeOptions
from pegboard.server.signals import Ending

__all__ = ["announce", "own_address"]

logger: logging.Logger = logging.getLogger(__name__)


async def announce(
    owner: Owner,
    options: ServeOptions,
    hub: Hub,
    *,
    port: int,
    ending: Ending,
    announced: anyio.Event,
) -> None:
    """Announce this process until it is to end; tell when that is done, or cannot be done."""
    path = None
    try:
        address = own_address(options.host, port)
        if address is not None:
            path = await anyio.to_thread.run_sync(_publish, owner, options, hub, address)
        announced.set()
        await ending.asked.wait()
    except OSError as error:
        # Commands start servers of their own then, that is all.
        logger.debug("not_announced: %s", error, extra={"reason": str(error)})
    finally:
        announced.set()
        if path is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(withdraw, path)


def own_address(host: str, port: int) -> str | None:
    """Return the address by which this machine alone reaches a server, if there is one."""
    if is_loopback(host):
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        bound = ipaddress.ip_address(host)
    except ValueError:
        return None
    if not bound.is_unspecified:
        return None
    return f"http://127.0.0.1:{port}" if bound.version == 4 else f"http://[::1]:{port}"


def _publish(owner: Owner, options: ServeOptions, hub: Hub, address: str) -> Path:
    machine, started = identity_of(os.getpid())
    config = hub.loaded.path
    return publish(
        Announcement(
            pid=os.getpid(),
            started=started,
            machine=machine,
            address=address,
            config=None if config is None else str(config.resolve()),
            store=None if options.storage is None else place_of_store(options.storage),
            token=owner.token,
        )
    )
