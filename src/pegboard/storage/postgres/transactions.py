"""Transactions that commit exactly once, with retries when the PostgreSQL server goes away."""

import random
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, TypeVar

import psycopg

from pegboard.errors import StorageError, StoreUnavailableError
from pegboard.model.fork_guard import GuardedLock
from pegboard.storage.postgres.connection_pool import ConnectionPool, PostgresConnection
from pegboard.storage.postgres.errors import lost_connection, repeatable, translated

__all__ = ["CHANNEL", "Transactions", "batches", "tenant_mark"]

Item = TypeVar("Item")
Result = TypeVar("Result")

CHANNEL = "pegboard"
"""The channel of the notifications about changes."""
RETRY_SECONDS = 15.0
"""How long a server may be unavailable before the caller gets an error."""
MOST_IN_A_BATCH = 2000
# A message of the protocol ends at 1 GB.
MOST_BYTES_IN_A_BATCH = 16 * 1024 * 1024
_LONGEST_PAUSE = 1.0

# An attempt may have been committed although the answer was lost. The next attempt then finds its
# own token; if the first is still running, the insert waits for its end. (`pg_xact_status`
# needs no table, but a server that crashed gives the same number to another transaction.)
_ONCE = """
WITH forgotten AS (
    DELETE FROM pegboard.commits WHERE tenant = %(tenant)s AND token = ANY(%(done)s)
), mine AS (
    INSERT INTO pegboard.commits (tenant, token) VALUES (%(tenant)s, %(token)s)
    ON CONFLICT DO NOTHING RETURNING 1
)
"""
_ENTER = f"{_ONCE} SELECT 0 FROM mine"  # noqa: S608 - constants only
# The row of the tenant stays locked until the commit, so revisions grow in the order of commits.
_ENTER_AND_ANNOUNCE = f"""{_ONCE}
INSERT INTO pegboard.tenants AS it (tenant, revision) SELECT %(tenant)s, 1 FROM mine
ON CONFLICT (tenant) DO UPDATE SET revision = it.revision + 1
RETURNING it.revision, pg_notify('{CHANNEL}', %(mark)s || ' ' || it.revision)
"""  # noqa: S608 - constants only


def tenant_mark(tenant: str) -> str:
    """Return the short name of a tenant in notifications and locks."""
    return sha256(tenant.encode()).hexdigest()[:16]


class Transactions:
    """Reads and writes of one tenant, retried on a new connection when one is lost."""

    def __init__(self, connections: ConnectionPool, tenant: str) -> None:
        self.tenant = tenant
        self._connections = connections
        self._mark = tenant_mark(tenant)
        self._done: list[uuid.UUID] = []
        self._closing = threading.Event()
        self._lock = GuardedLock("store", threading.Lock())
        self._writing = threading.local()

    def close(self) -> None:
        """Wake the threads that wait for the server to come back."""
        self._closing.set()

    def check_open(self) -> None:
        """Check that the store is open, and that this process opened it.

        Raises:
            StorageError: when it is closed.
            ForkedProcessError: when it is the store of the parent process.
        """
        self._connections.lock.check()
        if self._connections.closed:
            url = self._connections.url
            raise StorageError(f"The store {url} is closed. Open it again.", url=url)

    def read(self, work: Callable[[PostgresConnection], Result]) -> Result:
        """Run ``work``, which only reads, and retry it until it succeeds."""

        def attempt() -> Result:
            with self._connections.one() as connection:
                return work(connection)

        return self.retry(attempt)

    def write(
        self, work: Callable[[PostgresConnection, int], Result], *, announced: bool = True
    ) -> Result:
        """Run ``work`` in one transaction that commits exactly once; it gets the new revision.

        Args:
            work: its changes are rolled back when it raises.
            announced: False for a write that has no revision, and that watchers need not know.

        Raises:
            StorageError: when this thread is already in a write, which would deadlock.
        """
        with self._only_write_of_this_thread():
            return self._write(work, _ENTER_AND_ANNOUNCE if announced else _ENTER)

    def retry(self, attempt: Callable[[], Result]) -> Result:
        """Retry while the server is unavailable, or concurrent transactions conflict.

        Raises:
            StoreUnavailableError: when the server stays unavailable.
            StorageError: for every other error of PostgreSQL.
        """
        until = None
        pause = 0.0
        while True:
            self.check_open()
            try:
                return attempt()
            except psycopg.Error as error:
                until = until or time.monotonic() + RETRY_SECONDS
                lost = lost_connection(error)
                if lost:
                    # The other connections are probably dead too.
                    self._connections.forget_idle()
                if not (lost or repeatable(error)) or time.monotonic() + pause > until:
                    raise translated(error, self._connections.url) from error
            self._closing.wait(pause * random.uniform(0.5, 1))  # noqa: S311 - only to spread them
            pause = min(max(pause * 2, 0.02), _LONGEST_PAUSE)

    @contextmanager
    def _only_write_of_this_thread(self) -> Generator[None]:
        writing = self._writing
        if getattr(writing, "is_under_way", False):
            url = self._connections.url
            raise StorageError(
                f"This thread is already writing to {url}. Do not write in the callback that "
                "reports the progress.",
                url=url,
            )
        writing.is_under_way = True
        try:
            yield
        finally:
            writing.is_under_way = False

    def _write(self, work: Callable[[PostgresConnection, int], Result], enter: str) -> Result:
        token = uuid.uuid4()
        with self._lock:
            done, self._done = self._done, []
        parameters: dict[str, Any] = {
            "tenant": self.tenant,
            "token": token,
            "done": done,
            "mark": self._mark,
        }
        results: list[Result] = []

        def attempt() -> Result:
            with self._connections.one() as connection:
                connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                entered = connection.execute(enter.encode(), parameters).fetchone()
                if entered is None:
                    return results[-1]
                results.append(work(connection, entered[0]))
                connection.execute("COMMIT")
                return results[-1]

        try:
            result = self.retry(attempt)
        except StoreUnavailableError as error:
            if not results:
                raise
            raise StoreUnavailableError(
                f"{error} The connection was lost during the commit, so it is not known whether "
                "the data was saved.",
                url=error.url,
            ) from error.__cause__
        with self._lock:
            self._done.append(token)
        return result


def batches(items: Iterable[Item], size_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Split items into batches that one statement can send, none of them empty."""
    batch: list[Item] = []
    size = 0
    for item in items:
        if batch and (len(batch) == MOST_IN_A_BATCH or size > MOST_BYTES_IN_A_BATCH):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += size_of(item)
    if batch:
        yield batch
