"""The JSON store: a file that people read and edit, with a journal beside it."""

from pegboard.storage.json_file.store import JsonStore, open_url

__all__ = ["JsonStore", "open_url"]
