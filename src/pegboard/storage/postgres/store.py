"""The PostgreSQL store: one database for many processes on many machines."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import Self

import psycopg

from pegboard.model import Tool, Usage
from pegboard.storage.encoding import check_key, check_tenant
from pegboard.storage.postgres.buckets import fill
from pegboard.storage.postgres.connection_pool import ConnectionPool, parse_url
from pegboard.storage.postgres.errors import translated
from pegboard.storage.postgres.key_values import PostgresKeyValues
from pegboard.storage.postgres.leader_election import election
from pegboard.storage.postgres.listen_notify import PostgresChangeFeed
from pegboard.storage.postgres.migrations import migrate
from pegboard.storage.postgres.tombstone_cleanup import TransactionsWithCleanup
from pegboard.storage.postgres.tools import PostgresTools, PostgresUsage
from pegboard.storage.store import ANY, OnProgress, Revision, StoreChange, StoredTool, Use
from pegboard.storage.watchers import Watchers

__all__ = ["PostgresStore", "open_url"]

_LONGEST_TENANT = 128

_NAMESPACES = """
SELECT DISTINCT namespace FROM pegboard.entries
WHERE tenant = %s AND value IS NOT NULL ORDER BY namespace
"""


def open_url(url: str, tenant: str) -> "PostgresStore":
    """Open the database that a URL names; its tables are created if they do not exist.

    Raises:
        StorageError: when the database cannot be opened.
    """
    return PostgresStore(url, tenant=tenant)


class PostgresStore:
    """The data of one tenant in a PostgreSQL database."""

    def __init__(self, url: str, *, tenant: str) -> None:
        conninfo, self._url = parse_url(url)
        self._tenant = check_tenant(tenant)
        self._connections = ConnectionPool(conninfo, self._url)
        self._transactions = TransactionsWithCleanup(self._connections, _short(tenant))
        self._tools = PostgresTools(self._transactions, self._url)
        self._usage = PostgresUsage(self._transactions)
        self._feed = PostgresChangeFeed(self._connections, self._transactions.tenant)
        # The poll itself waits.
        self._watchers = Watchers(self._feed.poll, interval=0)
        try:
            with self._connections.one() as connection:
                migrate(connection, url=self._url)
            self._transactions.clean()
        except BaseException as error:
            self.close()
            if isinstance(error, psycopg.Error):
                raise translated(error, self._url) from error
            raise

    @property
    def url(self) -> str:
        """The URL of the store, without a password."""
        return self._url

    @property
    def tenant(self) -> str:
        """The tenant whose data this is."""
        return self._tenant

    def __repr__(self) -> str:
        return f"PostgresStore({self.url!r}, tenant={self.tenant!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load_all(self) -> list[StoredTool]:
        """Return all tools, the most used first, then by name."""
        return self._tools.load_all()

    def load(self, names: Iterable[str]) -> dict[str, StoredTool]:
        """Return the tools with these names."""
        return self._tools.load(names)

    def save(self, tool: Tool | StoredTool, *, expected: Revision = ANY) -> int:
        """Save a tool and return its revision."""
        [revision] = self._tools.save_many([tool], expected=expected).values()
        return revision

    def save_many(
        self,
        tools: Iterable[Tool | StoredTool],
        *,
        expected: Revision = ANY,
        on_progress: OnProgress | None = None,
    ) -> dict[str, int]:
        """Save many tools, all or none, and return their revisions by name."""
        return self._tools.save_many(tools, expected=expected, on_progress=on_progress)

    def delete(self, name: str, *, expected: Revision = ANY) -> bool:
        """Delete a tool and its usage, and tell whether the tool existed."""
        return self._tools.delete(name, expected=expected)

    def add_usage(self, uses: Mapping[str, Use]) -> None:
        """Add to the usage counts of these tools."""
        self._usage.add(uses)

    def set_usage(self, usage: Mapping[str, Usage]) -> None:
        """Replace the usage counts of these tools."""
        self._usage.replace(usage)

    def usage(self, names: Iterable[str] | None = None) -> dict[str, Usage]:
        """Return the usage counts of these tools, or of every tool that was ever used."""
        return self._usage.get(names)

    def namespace(self, name: str) -> PostgresKeyValues:
        """Return the values of one namespace."""
        self._transactions.check_open()
        return PostgresKeyValues(self._transactions, self._url, name)

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces that hold values, in order."""
        tenant = [self._transactions.tenant]
        rows = self._transactions.read(lambda it: it.execute(_NAMESPACES, tenant).fetchall())
        return [name for [name] in rows]

    def watch(self, watcher: Callable[[StoreChange], object]) -> Callable[[], None]:
        """Call a watcher with every change, in a thread of the store; call the result to stop."""
        self._transactions.check_open()
        stop_watching = self._watchers.add(
            watcher, before_first=lambda: self._transactions.retry(self._feed.begin)
        )

        def stop() -> None:
            stop_watching()
            # If a caller begins to watch right now, the next poll listens again.
            if self._watchers.stopping.is_set():
                self._feed.close()

        return stop

    def elected(self, job: str) -> AbstractContextManager[bool]:
        """Return a context manager that gives True to one process at a time: it does the job.

        A process that loses the connection to the server is no longer elected.
        """
        self._transactions.check_open()
        return election(self._connections, self._transactions, check_key("job", job))

    def fill_buckets(self, amounts: Mapping[str, float], *, most: float) -> dict[str, float]:
        """Add to leaky buckets, and return the level of each."""
        return fill(self._transactions, amounts, most=most)

    def check(self) -> None:
        """Read all data of the tenant.

        Raises:
            StoreDamagedError: when something cannot be read.
        """
        self._tools.check()
        self.usage()
        for name in self.namespaces():
            self.namespace(name).items()

    def close(self) -> None:
        """Release connections and threads; may be called more than once.

        A forked child does nothing: the connections are its parent's.
        """
        if self._connections.lock.in_child:
            return
        self._connections.close()
        self._transactions.close()
        self._watchers.close()
        self._feed.close()


def _short(tenant: str) -> str:
    # No two tenants give the same name: a shortened one is longer than any other.
    if len(tenant) <= _LONGEST_TENANT:
        return tenant
    return f"{tenant[: _LONGEST_TENANT - 63]}{sha256(tenant.encode()).hexdigest()}"
