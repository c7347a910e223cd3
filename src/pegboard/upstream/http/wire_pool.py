"""Connections for plain exchanges: kept for a while, and shared by all servers of a hub."""

import asyncio  # noqa: TID251 - the connections of the event loop are the matter of this file
from collections import defaultdict
from time import monotonic

from pegboard.upstream.http.connections import KEPT_IDLE, MOST_IDLE
from pegboard.upstream.http.wire import Address, WireAnswer, WireConnection, WireError

__all__ = ["WireClient", "WirePool"]


class WirePool:
    """Connections to any number of addresses; each is used by one exchange at a time."""

    def __init__(self) -> None:
        self._idle: dict[Address, list[WireConnection]] = defaultdict(list)
        self._all: set[WireConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def open(self, address: Address, patience: float) -> WireConnection:
        """Return a connection to an address, for one exchange.

        Raises:
            WireError: when nobody is there.
        """
        return self._take(address) or await self._connect(address, patience)

    def close(self) -> None:
        """Close all connections; whatever is sent afterwards is not sent."""
        self._is_closed = True
        for connection in list(self._all):
            connection.close()
        if self._sweep is not None:
            self._sweep.cancel()

    def keep(self, connection: WireConnection) -> None:
        """Keep a connection for the next exchange, for a while."""
        idle = self._idle[connection.address]
        if self._is_closed or len(idle) >= MOST_IDLE:
            connection.close()
            return
        connection.idle_since = monotonic()
        idle.append(connection)
        if self._sweep is None:
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(KEPT_IDLE, self._close_the_old)

    def forget(self, connection: WireConnection) -> None:
        """Note that a connection is gone."""
        self._all.discard(connection)
        idle = self._idle[connection.address]
        if connection in idle:
            idle.remove(connection)

    def _take(self, address: Address) -> WireConnection | None:
        idle = self._idle[address]
        while idle:
            # The one used last: the others may grow old.
            connection = idle.pop()
            if monotonic() - connection.idle_since < KEPT_IDLE and connection.is_open:
                return connection
            connection.close()
        return None

    def _close_the_old(self) -> None:
        self._sweep = None
        limit = monotonic() - KEPT_IDLE
        for idle in list(self._idle.values()):
            for connection in list(idle):
                if connection.idle_since <= limit:
                    connection.close()
        if any(self._idle.values()):
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(KEPT_IDLE, self._close_the_old)

    async def _connect(self, address: Address, patience: float) -> WireConnection:
        if self._is_closed:
            raise WireError("The pool of connections is closed", sent=False)
        try:
            async with asyncio.timeout(patience):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: WireConnection(address, keep=self.keep, forget=self.forget),
                    *address,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError:
            reason = f"The server took no connection within {patience:g} s"
            raise WireError(reason, sent=False) from None
        except (OSError, UnicodeError) as error:
            raise WireError("All connection attempts failed", sent=False) from error
        self._all.add(connection)
        return connection


class WireClient:
    """Exchanges with one address, which all end with it."""

    def __init__(self, pool: WirePool, address: Address, *, patience: float, largest: int) -> None:
        self._pool = pool
        self._address = address
        self._patience = patience
        self._largest = largest
        self._in_use: set[WireConnection] = set()
        self._is_closed = False

    async def send(self, request: bytes) -> WireAnswer:
        """Send a request and return its answer: whole, or with a body that is still coming.

        Whoever gets one that is not plain leaves it when it is read, or closes it.

        Raises:
            WireError: when there is no answer.
        """
        connection = await self._pool.open(self._address, self._patience)
        if self._is_closed:
            self._pool.keep(connection)
            raise WireError("The connection was closed", sent=False)
        self._in_use.add(connection)
        answer = WireAnswer(connection, self._largest)
        try:
            await connection.exchange(request, answer, self._in_use)
        except BaseException:
            connection.close()
            raise
        if answer.is_whole and answer.is_plain:
            # Whoever reads another one with care gives it back by leaving it.
            connection.give_back()
        return answer

    def close(self) -> None:
        """End what is under way."""
        self._is_closed = True
        for connection in list(self._in_use):
            connection.close()
