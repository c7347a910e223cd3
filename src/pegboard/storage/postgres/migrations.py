"""Schema migrations of the PostgreSQL store: numbered steps that only go forward."""

from pegboard.errors import StoreVersionError
from pegboard.storage.postgres.connection_pool import PostgresConnection

__all__ = ["MIGRATIONS", "Migration", "migrate"]

Migration = tuple[int, tuple[str, ...]]
"""The version after the step, and its statements."""

# Keys are compared byte by byte. A key of an index has at most 2,704 bytes, which is why tenants
# are shortened and entries have an id: their namespace and key together may be longer.
_TABLES = """
CREATE TABLE pegboard.tenants (
    tenant text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL DEFAULT 0,
    horizon bigint NOT NULL DEFAULT 0,
    cleaned_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE pegboard.commits (
    tenant text COLLATE "C" NOT NULL,
    token uuid NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, token)
);
CREATE TABLE pegboard.tools (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    body text,
    extras text,
    deleted_at timestamptz,
    PRIMARY KEY (tenant, name)
);
CREATE INDEX tools_by_revision ON pegboard.tools (tenant, revision);
CREATE TABLE pegboard.usage (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    use_frequency bigint NOT NULL,
    last_used timestamptz,
    PRIMARY KEY (tenant, name)
);
CREATE TABLE pegboard.entries (
    tenant text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    value text,
    deleted_at timestamptz,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX entries_by_revision ON pegboard.entries (tenant, revision);
CREATE INDEX entries_by_namespace ON pegboard.entries (tenant, namespace);
"""

_BUCKETS = """
CREATE TABLE pegboard.buckets (
    tenant text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    empty_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
)
"""

MIGRATIONS: tuple[Migration, ...] = ((1, (_TABLES,)), (2, (_BUCKETS,)))

# Any number that no other program uses in the database.
_LOCK = 0x7065_6762_6F61_7264
# Not by `to_regclass`, which may not see yet what another session has just created.
_SCHEMA = "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = 'pegboard'"
_VERSION_TABLE = """
SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = 'pegboard' AND tablename = 'version'
"""


def migrate(
    connection: PostgresConnection, *, url: str, migrations: tuple[Migration, ...] = MIGRATIONS
) -> None:
    """Migrate the tables to the newest version; one of several starting processes does it.

    Raises:
        StoreVersionError: when the tables are newer than that.
    """
    known = migrations[-1][0]
    version = _version(connection)
    for number, statements in migrations:
        if number > version:
            # Each step in its own transaction, which commits at the end of the `with`.
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
                version = _version(connection)
                if number > version:
                    _apply(connection, number, statements)
                    version = number
    if version > known:
        raise StoreVersionError(url=url, found=version, known=known)


def _version(connection: PostgresConnection) -> int:
    if not _value(connection, _VERSION_TABLE):
        return 0
    return _value(connection, "SELECT coalesce(max(version), 0) FROM pegboard.version")


def _apply(connection: PostgresConnection, number: int, statements: tuple[str, ...]) -> None:
    # Asked first: IF NOT EXISTS needs the right to create it even when it exists.
    if not _value(connection, _SCHEMA):
        connection.execute("CREATE SCHEMA pegboard")
    if not _value(connection, _VERSION_TABLE):
        connection.execute(
            "CREATE TABLE pegboard.version (version integer PRIMARY KEY, "
            "applied_at timestamptz NOT NULL DEFAULT now())"
        )
    for statement in statements:
        connection.execute(statement.encode())
    connection.execute("INSERT INTO pegboard.version (version) VALUES (%s)", [number])


def _value(connection: PostgresConnection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]
