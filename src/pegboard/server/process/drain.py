"""Drain: at shutdown, running calls get thirty seconds to finish before the process exits."""

import logging
from typing import Protocol

import anyio

from pegboard.server.process.signals import Shutdown

__all__ = ["DRAIN_SECONDS", "Drainable", "drain"]

logger: logging.Logger = logging.getLogger("pegboard.server")

DRAIN_SECONDS = 30.0
"""How long running calls may take to finish, unless ``--drain`` says otherwise."""


class Drainable(Protocol):
    """What has running requests; `Gateway` implements it, and cuts off what does not finish."""

    @property
    def busy(self) -> int:
        """How many requests are running."""
        ...

    async def drain(self, seconds: float) -> None:
        """Refuse new calls, and wait this many seconds for the running ones."""
        ...


async def drain(
    shutdown: Shutdown, gateway: Drainable, *, seconds: float, notice_seconds: float = 0.0
) -> None:
    """Let the running calls finish once the shutdown is requested.

    A forced shutdown ends both waits at once.

    Args:
        shutdown: tells when the process is to end.
        gateway: what runs the calls.
        seconds: how long the running calls may take.
        notice_seconds: how long new requests are still accepted, so that a load balancer can
            notice that this process is no longer ready.
    """
    _log_running(gateway.busy)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_forced, shutdown, tasks.cancel_scope)
        await anyio.sleep(notice_seconds)
        await gateway.drain(seconds)
        tasks.cancel_scope.cancel()


def _log_running(count: int) -> None:
    if count:
        requests = "1 request" if count == 1 else f"{count} requests"
        logger.info("Finishing %s; Ctrl-C (or the signal) again stops at once.", requests)


async def _cancel_when_forced(shutdown: Shutdown, scope: anyio.CancelScope) -> None:
    await shutdown.forced.wait()
    scope.cancel()
