"""The SQLite store: one file, safe for many threads and processes."""

from pegboard.storage.sqlite.store import SqliteStore, open_url

__all__ = ["SqliteStore", "open_url"]
