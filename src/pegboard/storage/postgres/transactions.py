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
"""Where changes are announced."""
SECONDS = 15.0
"""For so long a server may be away before a caller hears of it."""
MOST_IN_A_BATCH = 2000
# A message of the protocol ends at 1 GB.
MOST_BYTES_IN_A_BATCH = 16 * 1024 * 1024
_LONGEST_PAUSE = 1.0

# An attempt may have been committed though the answer was lost. The next attempt then finds its own
# token there; if the first is still under way, the insert waits for its end. (`pg_xact_status`
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
    """Return what stands for a tenant in announcements and locks."""
    return sha256(tenant.encode()).hexdigest()[:16]


class Transactions:
    """Reads and writes of one tenant, repeated on a new connection when one is lost."""

    def __init__(self, connections: ConnectionPool, tenant: str) -> None:
        self.tenant = tenant
        self._connections = connections
        self._mark = tenant_mark(tenant)
        self._done: list[uuid.UUID] = []
        self._closing = threading.Event()
        self._lock = GuardedLock("store", threading.Lock())
        self._writing = threading.local()

    def close(self) -> None:
        """Wake those that wait for the server to come back."""
        self._closing.set()

    def check_open(self) -> None:
        """Refuse to go on after the end, or in a forked child.

        Raises:
            StorageError: when the store is closed.
            ForkedProcessError: when it is the store of the parent process.
        """
        self._connections.lock.check()
        if self._connections.closed:
            url = self._connections.url
            raise StorageError(f"The store {url} is closed; open it again.", url=url)

    def read(self, work: Callable[[PostgresConnection], Result]) -> Result:
        """Do something that changes nothing; as often as it takes."""

        def attempt() -> Result:
            with self._connections.one() as connection:
                return work(connection)

        return self.persevere(attempt)

    def write(
        self, work: Callable[[PostgresConnection, int], Result], *, announced: bool = True
    ) -> Result:
        """Do something in one transaction, given the revision it makes, once and only once.

        Args:
            work: everything it does is undone when it raises.
            announced: False for what has no revision, and of which no watcher hears.

        Raises:
            StorageError: when this thread is in a write already, for which it would wait.
        """
        with self._only_write_of_this_thread():
            return self._write(work, _ENTER_AND_ANNOUNCE if announced else _ENTER)

    def persevere(self, attempt: Callable[[], Result]) -> Result:
        """Try again while the server is away, or others are in the way.

        Raises:
            StoreUnavailableError: when it stays away.
            StorageError: for whatever else PostgreSQL does not like.
        """
        until = None
        pause = 0.0
        while True:
            self.check_open()
            try:
                return attempt()
            except psycopg.Error as error:
                until = until or time.monotonic() + SECONDS
                lost = lost_connection(error)
                if lost:
                    # The others are probably dead too.
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
                f"{url} is being written by this very thread: do not write while being told of "
                "the progress.",
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
            result = self.persevere(attempt)
        except StoreUnavailableError as error:
            if not results:
                raise
            raise StoreUnavailableError(
                f"{error} It went away while keeping this: whether it was kept is not known.",
                url=error.url,
            ) from error.__cause__
        with self._lock:
            self._done.append(token)
        return result


def batches(items: Iterable[Item], size_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Cut items into batches that one statement can send, none empty."""
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
