"""Leader election by advisory lock: of all processes on a database, one does a job."""

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
    """Give True to one holder of a job at a time, False to every other process.

    The server remembers the holder until it gives the job back, or for as long as its connection
    lasts.
    """
    keys = [_lock_key(it) for it in (transactions.tenant, job)]

    def attempt() -> tuple[PostgresConnection, bool]:
        connection = connections.new()
        try:
            # Long jobs say nothing for long.
            connection.execute("SET idle_session_timeout = 0")
            query = "SELECT pg_try_advisory_lock(%s::int, %s::int)"
            [[elected]] = connection.execute(query, keys).fetchall()
        except BaseException:
            connection.close()
            raise
        return connection, elected

    process = os.getpid()
    connection, elected = transactions.persevere(attempt)
    try:
        yield elected
    finally:
        # A forked child must leave the job and the connection to its parent.
        if os.getpid() == process:
            _leave(connection, keys if elected else None)


def _leave(connection: PostgresConnection, keys: list[int] | None) -> None:
    # The server notices the end of a connection a while later, and others ask right now. One that
    # is lost, or of no use any more, it notices by itself.
    with closing(connection), suppress(psycopg.Error):
        if keys is not None:
            connection.execute("SELECT pg_advisory_unlock(%s::int, %s::int)", keys)


def _lock_key(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big", signed=True)
