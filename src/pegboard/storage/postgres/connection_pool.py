"""Connection pool of a PostgreSQL server: opened when needed, shared by threads, with timeouts."""

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
from pegboard.storage.urls import without_password

__all__ = ["ConnectionPool", "PostgresConnection", "connect", "parse_url"]

Result = TypeVar("Result")

MOST = 8
"""So many connections at once, besides those of watchers and of elected jobs."""
SPARE_SECONDS = 60.0
"""Connections that no thread needed for so long are closed, all but one."""
PATIENCE = 30.0
"""Seconds to wait for one of them."""
SILENCE = 45.0
"""Seconds after which a server that says nothing at all counts as gone; more if the URL gives
statements more time than `_SETTINGS` do."""
OLDEST_SERVER = 140000

# What the URL says comes after these, and so counts.
_SETTINGS = {
    "statement_timeout": "30s",
    # Longer than the next one: no process fails because another died in mid-transaction.
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


# As `options` have it: without a blank. The last one counts.
_STATEMENT_TIMEOUT = re.compile(r"statement[_-]timeout=([0-9]+)(us|ms|s|min|h|d)?")
_UNITS = {"us": 1e-6, "": 1e-3, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
# To the end: what is not quoted as it should be must not show either.
_NAMED_PASSWORD = re.compile(r"(password\s*=).*", re.IGNORECASE | re.DOTALL)
# It starts up, shuts down or recovers. In words, as who is not let in gets no code; `PQping` would
# tell, but stops all threads while it asks.
_NOT_READY = "the database system is "
_PAUSE = 0.05


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up on a server that has stopped answering."""

    extra_time: float = 0.0
    """Seconds that a statement may take beyond what is usual."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for the server, but not for ever."""
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, gen: Generator[Any, Any, Result]) -> Generator[Any, Any, Result]:
        silence = SILENCE + self.extra_time
        until = time.monotonic() + silence
        try:
            state = next(gen)
            while True:
                ready = yield state
                if ready:
                    until = time.monotonic() + silence
                elif time.monotonic() > until:
                    # Nothing more can be said over it, not even that it is over.
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer for {silence:.0f} seconds")
                state = gen.send(ready)
        except StopIteration as end:
            return end.value


def parse_url(url: str) -> tuple[str, str]:
    """Return how to connect, and the URL to show.

    Raises:
        StorageError: when it is not a URL of PostgreSQL.
    """
    scheme, mark, rest = url.partition("://")
    shown = _shown(scheme, rest) if mark else "postgresql://…"
    try:
        found = conninfo_to_dict(f"{scheme.lower()}://{rest}") if mark else None
    except psycopg.Error:
        found = None
    place = rest.partition("?")[0]
    if "@" in place.partition("@")[2] or "@" in place.partition("/")[2]:
        # Part of a password would be taken for the host or the database, and shown.
        found = None
    if found is None or not re.fullmatch(r"[\d,]*", str(found.get("port", ""))):
        # Without what libpq says, which may quote the password.
        raise StorageError(
            f"{shown!r} is not a URL of PostgreSQL: it looks like "
            "`postgresql://user:password@host:5432/database`, with what is special in a password "
            "or a name written as `%2F` for `/`, `%40` for `@` and so on.",
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
    """Open a connection that commits by itself, except between BEGIN and COMMIT.

    Raises:
        psycopg.Error: when the server cannot be reached, or does not let us in.
        StoreUnavailableError: when it is too old, or of another encoding.
    """
    connection = _connect(conninfo)
    info = connection.info
    problem = ""
    if info.server_version < OLDEST_SERVER:
        oldest = OLDEST_SERVER // 10000
        problem = f"is a server of version {info.server_version // 10000}; use {oldest} or newer"
    elif info.parameter_status("server_encoding") != "UTF8":
        problem = "is a database that cannot hold every letter; make one with ENCODING 'UTF8'"
    if problem:
        connection.close()
        raise StoreUnavailableError(f"{url} {problem}.", url=url)
    connection.extra_time = _extra_time(conninfo)
    return connection


class ConnectionPool:
    """A few connections that threads take in turn."""

    def __init__(self, conninfo: str, url: str) -> None:
        self.url = url
        self._conninfo = conninfo
        self._idle: list[tuple[float, PostgresConnection]] = []
        self.closed: bool = False
        self.lock: GuardedLock = GuardedLock("store", threading.Lock())
        self._places = threading.Semaphore(MOST)

    @contextmanager
    def one(self) -> Generator[PostgresConnection]:
        """Lend a connection; what it left unfinished is rolled back.

        Raises:
            psycopg.Error: when there is none to be had.
            StoreUnavailableError: when all are in use.
        """
        with self._place():
            connection = self._take()
            try:
                yield connection
            finally:
                self._give(connection)

    def new(self) -> PostgresConnection:
        """Open a connection that is not counted; the caller closes it."""
        return connect(self._conninfo, self.url)

    def forget_idle(self) -> None:
        """Close the connections that no thread uses."""
        with self.lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def close(self) -> None:
        """Close what is idle now, and the others when they are given back.

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
        if not places.acquire(timeout=PATIENCE):
            raise StoreUnavailableError(
                f"{self.url}: all {MOST} connections of this process have been in use for "
                f"{PATIENCE:.0f} seconds. Ask for less at once.",
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
            while len(self._idle) > 1 and self._idle[0][0] < now - SPARE_SECONDS:
                spare.append(self._idle.pop(0)[1])
        for it in spare:
            it.close()


def _shown(scheme: str, rest: str) -> str:
    hidden = _NAMED_PASSWORD.sub(r"\1***", rest)
    # A password with a slash in it, not written as `%2F`, is read as many things.
    secret, _, place = hidden.rpartition("@")
    user, colon, _ = secret.partition(":")
    return without_password(f"{scheme}://{user}:***@{place}" if colon else f"{scheme}://{hidden}")


def _connect(conninfo: str) -> PostgresConnection:
    until = time.monotonic() + _patience(conninfo)
    while True:
        try:
            return PostgresConnection.connect(conninfo, autocommit=True)
        except psycopg.OperationalError as error:
            if time.monotonic() > until or _NOT_READY not in str(error):
                raise
        time.sleep(_PAUSE)


def _patience(conninfo: str) -> float:
    try:
        return float(conninfo_to_dict(conninfo)["connect_timeout"] or 0)
    except ValueError:
        return 0


def _extra_time(conninfo: str) -> float:
    """Return how much longer than usual a statement may take."""
    # The first one is that of `_SETTINGS`.
    said = _STATEMENT_TIMEOUT.findall(str(conninfo_to_dict(conninfo)["options"]))
    return max(0.0, _seconds(*said[-1]) - _seconds(*said[0]))


def _seconds(amount: str, unit: str) -> float:
    return int(amount) * _UNITS[unit]
