"""The PostgreSQL store: one database, shared by any number of machines."""

from pegboard.storage.postgres.store import PostgresStore, open_url

__all__ = ["PostgresStore", "open_url"]
