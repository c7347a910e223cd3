"""Connection pool for PostgreSQL: opened when needed, shared by threads, with timeouts."""

import os
import re
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pegboard.errors import StorageError, StoreUnavailableError
from pegboard.model.fork_guard import GuardedLock
from pegboard.storage.open_store import without_password

__all__ = ["ConnectionPool", "PostgresConnection", "connect", "parse_url"]

Result = TypeVar("Result")

MAX_CONNECTIONS = 8
"""The size of the pool; the connections of watchers and elected jobs come on top."""
IDLE_SECONDS = 60.0
"""The time after which idle connections are closed, all but one."""
POOL_TIMEOUT = 30.0
"""Seconds to wait for a connection of the pool."""
SERVER_TIMEOUT = 45.0
"""Seconds after which a silent server counts as gone; longer if the URL sets a longer
``statement_timeout`` than `_SETTINGS` do."""
OLDEST_SERVER = 140000

# The options of the URL come after these, and override them.
_SETTINGS = {
    "statement_timeout": "30s",
    # Longer than the next one: no process fails because another died in a transaction.
    "lock_timeout": "20s",
    "idle_in_transaction_session_timeout": "15s",
    "synchronous_commit": "on",
    "timezone": "UTC",
}
_PARAMETERS = {
    "application_name": "pegboard",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


# As in `options`, without a space. The last one counts.
_STATEMENT_TIMEOUT = re.compile(r"statement[_-]timeout=([0-9]+)(us|ms|s|min|h|d)?")
_UNITS = {"us": 1e-6, "": 1e-3, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
# To the end: a password with unquoted special characters must not show either.
_NAMED_PASSWORD = re.compile(r"(password\s*=).*", re.IGNORECASE | re.DOTALL)
# The server starts up, shuts down or recovers. The message is compared, as a refused client gets
# no code; `PQping` would tell, but blocks all threads while it asks.
_NOT_READY = "the database system is "
_PAUSE = 0.05


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up on a server that has stopped answering."""

    extra_time: float = 0.0
    """Seconds that a statement may take beyond the usual timeout."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for the server, with a timeout."""
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, gen: Generator[Any, Any, Result]) -> Generator[Any, Any, Result]:
        timeout = SERVER_TIMEOUT + self.extra_time
        until = time.monotonic() + timeout
        try:
            state = next(gen)
            while True:
                ready = yield state
                if ready:
                    until = time.monotonic() + timeout
                elif time.monotonic() > until:
                    # The connection cannot be closed in an orderly way any more.
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer for {timeout:.0f} seconds")
                state = gen.send(ready)
        except StopIteration as end:
            return end.value


def parse_url(url: str) -> tuple[str, str]:
    """Return the connection string of a URL, and the URL to show.

    Raises:
        StorageError: when it is not a PostgreSQL URL.
    """
    scheme, mark, rest = url.partition("://")
    shown = _shown(scheme, rest) if mark else "postgresql://…"
    try:
        found = conninfo_to_dict(f"{scheme.lower()}://{rest}") if mark else None
    except psycopg.Error:
        found = None
    place = rest.partition("?")[0]
    if "@" in place.partition("@")[2] or "@" in place.partition("/")[2]:
        # A part of the password would be read as the host or the database, and shown.
        found = None
    if found is None or not re.fullmatch(r"[\d,]*", str(found.get("port", ""))):
        # Without libpq's own message, which may quote the password.
        raise StorageError(
            f"{shown!r} is not a PostgreSQL URL. Such a URL looks like "
            "`postgresql://user:password@host:5432/database`. Special characters in a password "
            "or a name are percent-encoded: `%2F` for `/`, `%40` for `@` and so on.",
            url=shown,
        )
    options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    parameters: dict[str, Any] = {
        **_PARAMETERS,
        "connect_timeout": os.environ.get("PGCONNECT_TIMEOUT", "5"),
        **found,
        "client_encoding": "UTF8",
        "options": f"{options} {found.get('options', os.environ.get('PGOPTIONS', ''))}",
    }
    return make_conninfo("", **parameters), shown


def connect(conninfo: str, url: str) -> PostgresConnection:
    """Open a connection in autocommit mode.

    Raises:
        psycopg.Error: when the server cannot be reached, or refuses the connection.
        StoreUnavailableError: when the server is too old, or the database is not in UTF-8.
    """
    connection = _connect(conninfo)
    info = connection.info
    problem = ""
    if info.server_version < OLDEST_SERVER:
        oldest = OLDEST_SERVER // 10000
        problem = f"runs PostgreSQL {info.server_version // 10000}; use {oldest} or newer"
    elif info.parameter_status("server_encoding") != "UTF8":
        problem = "is a database that is not in UTF-8; create one with ENCODING 'UTF8'"
    if problem:
        connection.close()
        raise StoreUnavailableError(f"{url} {problem}.", url=url)
    connection.extra_time = _extra_time(conninfo)
    return connection


class ConnectionPool:
    """A few connections that the threads of this process share."""

    def __init__(self, conninfo: str, url: str) -> None:
        self.url = url
        self._conninfo = conninfo
        self._idle: list[tuple[float, PostgresConnection]] = []
        self.closed: bool = False
        self.lock: GuardedLock = GuardedLock("store", threading.Lock())
        self._places = threading.Semaphore(MAX_CONNECTIONS)

    @contextmanager
    def one(self) -> Generator[PostgresConnection]:
        """Lend a connection; a transaction that the caller left open is rolled back.

        Raises:
            psycopg.Error: when no connection can be opened.
            StoreUnavailableError: when all connections stay in use.
        """
        with self._place():
            connection = self._take()
            try:
                yield connection
            finally:
                self._give(connection)

    def new(self) -> PostgresConnection:
        """Open a connection outside of the pool; the caller closes it."""
        return connect(self._conninfo, self.url)

    def forget_idle(self) -> None:
        """Close the connections that no thread uses."""
        with self.lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def close(self) -> None:
        """Close the idle connections now, and the others when they are returned.

        A forked child closes nothing: that would end the connections of its parent.
        """
        if self.lock.in_child:
            return
        self.closed = True
        self.forget_idle()

    @contextmanager
    def _place(self) -> Generator[None]:
        self.lock.check()
        places = self._places
        if not places.acquire(timeout=POOL_TIMEOUT):
            raise StoreUnavailableError(
                f"{self.url}: all {MAX_CONNECTIONS} connections of this process have been in use "
                f"for {POOL_TIMEOUT:.0f} seconds. Make fewer requests at once.",
                url=self.url,
            )
        try:
            yield
        finally:
            places.release()

    def _take(self) -> PostgresConnection:
        with self.lock:
            if self._idle:
                return self._idle.pop()[1]
        return self.new()

    def _give(self, connection: PostgresConnection) -> None:
        with suppress(psycopg.Error):
            if connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        usable = connection.pgconn.transaction_status == pq.TransactionStatus.IDLE
        now = time.monotonic()
        with self.lock:
            spare = [] if usable and not self.closed else [connection]
            if not spare:
                self._idle.append((now, connection))
            while len(self._idle) > 1 and self._idle[0][0] < now - IDLE_SECONDS:
                spare.append(self._idle.pop(0)[1])
        for it in spare:
            it.close()


def _shown(scheme: str, rest: str) -> str:
    hidden = _NAMED_PASSWORD.sub(r"\1***", rest)
    # A password with a slash that is not written as `%2F` can be read as any other part.
    secret, _, place = hidden.rpartition("@")
    user, colon, _ = secret.partition(":")
    return without_password(f"{scheme}://{user}:***@{place}" if colon else f"{scheme}://{hidden}")


def _connect(conninfo: str) -> PostgresConnection:
    until = time.monotonic() + _connect_timeout(conninfo)
    while True:
        try:
            return PostgresConnection.connect(conninfo, autocommit=True)
        except psycopg.OperationalError as error:
            if time.monotonic() > until or _NOT_READY not in str(error):
                raise
        time.sleep(_PAUSE)


def _connect_timeout(conninfo: str) -> float:
    try:
        return float(conninfo_to_dict(conninfo)["connect_timeout"] or 0)
    except ValueError:
        return 0


def _extra_time(conninfo: str) -> float:
    """Return how many seconds longer than usual a statement may take."""
    # The first timeout is that of `_SETTINGS`.
    said = _STATEMENT_TIMEOUT.findall(str(conninfo_to_dict(conninfo)["options"]))
    return max(0.0, _seconds(*said[-1]) - _seconds(*said[0]))


def _seconds(amount: str, unit: str) -> float:
    return int(amount) * _UNITS[unit]
