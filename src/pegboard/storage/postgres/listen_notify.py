"""Change feed of a PostgreSQL store: NOTIFY announces a change, and revisions say which."""

import time

from pegboard.storage.postgres.connection_pool import ConnectionPool, PostgresConnection
from pegboard.storage.postgres.transactions import CHANNEL, tenant_mark
from pegboard.storage.store import StoreChange

__all__ = ["PostgresChangeFeed"]

WAIT = 0.1
"""Seconds that one poll waits for a notification."""
POLL_ANYWAY = 5.0
"""Seconds after which it polls without a notification, as some proxies do not forward them."""

_REVISION = "SELECT revision FROM pegboard.tenants WHERE tenant = %s"
_CHANGES = """
SELECT revision, horizon,
    ARRAY(SELECT name FROM pegboard.tools
        WHERE tenant = %(tenant)s AND revision > %(seen)s),
    ARRAY(SELECT DISTINCT namespace FROM pegboard.entries
        WHERE tenant = %(tenant)s AND revision > %(seen)s)
FROM pegboard.tenants WHERE tenant = %(tenant)s
"""


class PostgresChangeFeed:
    """A connection that listens for changes; a lost one is replaced, and no change is missed."""

    def __init__(self, connections: ConnectionPool, tenant: str) -> None:
        self._connections = connections
        self._tenant = tenant
        self._mark = tenant_mark(tenant)
        self._connection: PostgresConnection | None = None
        self._seen = 0
        self._polled = 0.0

    def begin(self) -> None:
        """Let the next poll report what changes from now on.

        Raises:
            psycopg.Error: when the server is unavailable.
        """
        row = self._listen().execute(_REVISION, [self._tenant]).fetchone()
        self._seen = 0 if row is None else row[0]
        self._polled = time.monotonic()

    def poll(self) -> StoreChange | None:
        """Wait a moment for a change, and return it.

        Raises:
            psycopg.Error: when the server is unavailable; the next poll tries again.
        """
        connection = self._connection
        if connection is None or connection.closed:
            connection = self._listen()
        elif not self._is_notified(connection) and time.monotonic() < self._polled + POLL_ANYWAY:
            return None
        return self._changes(connection)

    def close(self) -> None:
        """Stop listening."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _listen(self) -> PostgresConnection:
        self.close()
        self._connection = connection = self._connections.new()
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _is_notified(self, connection: PostgresConnection) -> bool:
        received = list(connection.notifies(timeout=WAIT, stop_after=1))
        return any(it.payload.startswith(self._mark) for it in received)

    def _changes(self, connection: PostgresConnection) -> StoreChange | None:
        query = {"tenant": self._tenant, "seen": self._seen}
        row = connection.execute(_CHANGES, query).fetchone()
        self._polled = time.monotonic()
        revision, horizon, tools, namespaces = row or (0, 0, (), ())
        seen, self._seen = self._seen, revision
        # Tombstones up to the horizon have been removed; a lower revision means that a backup was
        # restored.
        if seen < horizon or revision < seen:
            return StoreChange(everything=True)
        if not tools and not namespaces:
            return None
        return StoreChange(tools=frozenset(tools), namespaces=frozenset(namespaces))
