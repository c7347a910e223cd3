"""Leader election by an advisory lock: one of all processes on a database does a job."""

import os
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256

import psycopg

from pegboard.storage.postgres.connection_pool import ConnectionPool, PostgresConnection
from pegboard.storage.postgres.transactions import Transactions

__all__ = ["election"]


@contextmanager
def election(connections: ConnectionPool, transactions: Transactions, job: str) -> Generator[bool]:
    """Yield True to one holder of a job at a time, and False to every other process.

    The holder keeps the job until it leaves the context, or its connection ends.
    """
    keys = [_lock_key(it) for it in (transactions.tenant, job)]

    def attempt() -> tuple[PostgresConnection, bool]:
        connection = connections.new()
        try:
            # The connection is idle during a long job.
            connection.execute("SET idle_session_timeout = 0")
            query = "SELECT pg_try_advisory_lock(%s::int, %s::int)"
            [[elected]] = connection.execute(query, keys).fetchall()
        except BaseException:
            connection.close()
            raise
        return connection, elected

    process = os.getpid()
    connection, elected = transactions.retry(attempt)
    try:
        yield elected
    finally:
        # A forked child must leave the job and the connection to its parent.
        if os.getpid() == process:
            _leave(connection, keys if elected else None)


def _leave(connection: PostgresConnection, keys: list[int] | None) -> None:
    # The server notices the end of a connection only a while later, so the lock is released first.
    # It notices a lost or broken connection by itself.
    with closing(connection), suppress(psycopg.Error):
        if keys is not None:
            connection.execute("SELECT pg_advisory_unlock(%s::int, %s::int)", keys)


def _lock_key(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big", signed=True)
