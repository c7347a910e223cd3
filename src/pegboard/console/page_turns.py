"""PageTurns: how many pages are made at once, so that none slows down the calls of others."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

__all__ = ["PageTurns"]

MOST, MOST_OF_TENANT = 4, 2
"""How many pages are made at once: by all tenants, and by one."""


class PageTurns:
    """Makes pages wait for each other.

    Pages are no calls, so no limit of a key counts them. They are made in the threads that all of
    the process shares, and hold the interpreter while they are. So only a few are made at a time,
    and a tenant that asks for many waits for itself.
    """

    def __init__(self) -> None:
        self._all = anyio.CapacityLimiter(MOST)
        self._by_tenant: dict[str, anyio.CapacityLimiter] = {}

    @asynccontextmanager
    async def take(self, tenant: str) -> AsyncGenerator[None]:
        """Wait until a tenant may make one more page; it is over when this is left.

        A page that calls a tool waits outside: a call may take as long as it likes.
        """
        own = self._by_tenant.get(tenant)
        if own is None:
            own = self._by_tenant[tenant] = anyio.CapacityLimiter(MOST_OF_TENANT)
        try:
            # Its own first, so that the others find no more than its share before them.
            async with own, self._all:
                yield
        finally:
            used = own.statistics()
            if not used.borrowed_tokens and not used.tasks_waiting:
                self._by_tenant.pop(tenant, None)
